"""The data source class that Spark loads: its name, schema, readers and writers."""

from __future__ import annotations

from collections.abc import MutableMapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from rocketmq_py.errors import ConfigError
from rocketmq_py.spark.options.options import (
    ReadOptions,
    Use,
    WriteOptions,
    check_options,
    read_options,
    write_options,
)
from rocketmq_py.spark.runtime.workers import keep_imports


class RocketMQDataSource(DataSource):
    """The data source behind ``format("rocketmq")``.

    Options are checked when the query is defined. Readers and writers are imported on first use, so that Spark's search
    for data sources stays quick.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        check_options(options)

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> StructType:
        """Return the columns of a read for which the user gives no schema."""
        from rocketmq_py.spark.schema import default_schema

        # Spark asks for the schema before it says whether the read is a batch or a stream: check what both require.
        return default_schema(self._read(Use.READ_ANY))

    def reader(self, schema: StructType) -> DataSourceReader:
        from rocketmq_py.spark.schema import check_read_schema
        from rocketmq_py.spark.source.reader import BatchReader, PruningReader

        options = self._read(Use.READ)
        if options.push_filters and not hasattr(DataSourceReader, "pushFilters"):
            raise ConfigError("option pushFilters needs PySpark 4.1 or later")
        return (PruningReader if options.push_filters else BatchReader)(options, check_read_schema(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from rocketmq_py.spark.schema import check_read_schema
        from rocketmq_py.spark.source.stream import stream_reader

        return stream_reader(self._read(Use.READ_STREAM), check_read_schema(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from rocketmq_py.spark.sink.sink import BatchWriter

        if overwrite:
            raise ConfigError("a topic cannot be overwritten: write with mode('append')")
        return BatchWriter(self._write(Use.WRITE), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002
        """Return the writer of a streaming query; in output mode complete each micro-batch sends all result rows."""
        from rocketmq_py.spark.sink.sink import stream_writer

        return stream_writer(self._write(Use.WRITE_STREAM), schema)

    def _read(self, use: Use) -> ReadOptions:
        options = read_options(self.options, use)
        keep_imports()  # in the Python process that plans the query
        options.security.context()  # fails here, not in the first task, if a certificate cannot be read
        return options

    def _write(self, use: Use) -> WriteOptions:
        options = write_options(self.options, use)
        keep_imports()
        options.security.context()
        return options
