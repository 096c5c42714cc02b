"""Which test files above the unit tests are tried on a fault that those did not notice."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

HIGHER: Mapping[str, tuple[str, ...]] = {
    "arrow": ("server/test_arrow.py",),
    "broker/acting": ("server/test_acting_master.py",),
    "broker/config": ("server/test_serve_settings.py", "server/test_cli_broker.py"),
    "broker/grpc": ("server/test_grpc.py",),
    "broker/ha": ("server/test_replication.py", "server/test_slave.py"),
    "broker/metadata": ("server/test_requests.py", "server/test_cli_group.py", "server/test_cli_topic.py"),
    "broker/metadata/filters": ("server/test_sql92.py",),
    "broker/metrics": ("server/test_monitoring.py",),
    "broker/pop": ("server/test_push_pop.py", "server/test_simple_blocking.py", "interop/test_pop_wire.py"),
    "broker/pull": ("server/test_pull.py", "server/test_slow_client.py"),
    "broker/rebuilder": ("server/test_rebuild.py",),
    "broker/record_permissions": ("server/test_access.py",),
    "broker/scrubber": ("server/test_scrub.py", "server/test_healing.py"),
    "broker/send": ("server/test_producer.py", "server/test_broker.py"),
    "broker/static_topic": ("interop/test_static_topics.py",),
    "broker/timer": ("server/test_timers.py", "server/test_timer_escape.py", "server/test_acting_master.py"),
    "broker/transaction": ("server/test_transactions.py",),
    "broker": ("server/test_broker.py", "server/test_simulation.py"),
    "cli/access": ("server/test_cli_access.py",),
    "cli/archive": ("server/test_archive.py",),
    "cli/consume": ("server/test_consume_command.py",),
    "cli/group": ("server/test_cli_group.py",),
    "cli/message": ("server/test_cli_message.py",),
    "cli/server": ("server/test_serve.py", "server/test_serve_cluster.py"),
    "cli/server/proxy": ("server/test_grpc_proxy.py",),
    "cli/store": ("server/test_store_command.py",),
    "cli/topic": ("server/test_cli_topic.py",),
    "cli/transaction": ("server/test_cli_transaction.py",),
    "cli": ("server/test_cli_broker.py", "server/test_cli_silent.py"),
    "client/admin": ("server/test_admin.py",),
    "client/consumer/lite_pull": ("server/test_lite_pull.py",),
    "client/consumer/pull": ("server/test_pull.py",),
    "client/consumer/push": ("server/test_push_pop.py",),
    "client/consumer/simple": ("server/test_simple_blocking.py",),
    "client/consumer": ("server/test_push.py", "server/test_consumer_trouble.py"),
    "client/hooks": ("server/test_tracing.py",),
    "client/otel": ("server/test_otel.py",),
    "client/producer": ("server/test_producer.py", "server/test_shared_client_blocking.py"),
    "client/send": ("server/test_producer.py",),
    "client": ("server/test_proxy.py", "server/test_simulation.py"),
    "console": ("server/test_console.py", "server/test_console_command.py"),
    "core/access": ("server/test_access.py",),
    "core/broker": ("server/test_broker.py",),
    "core/consumer": ("server/test_push.py", "server/test_push_orderly.py"),
    "core/grpc": ("server/test_grpc.py",),
    "core/pop": ("server/test_push_pop.py",),
    "core/producer": ("server/test_producer.py",),
    "core/sql92": ("server/test_sql92.py",),
    "core/timer": ("server/test_timers.py",),
    "core/transaction": ("server/test_transactions.py",),
    "core": ("server/test_requests.py", "server/test_simulation.py"),
    "grpc": ("server/test_grpc.py", "server/test_grpc_proxy.py"),
    "namesrv": ("server/test_namesrv.py",),
    "protocol/grpc": ("server/test_grpc.py",),
    "protocol": ("server/test_requests.py", "server/test_broker.py"),
    "proxy": ("server/test_grpc_proxy.py",),
    "remoting": ("server/test_producer.py", "server/test_tls.py"),
    "server/access": ("server/test_access.py",),
    "server/grpc": ("server/test_grpc.py", "server/test_grpc_badinput.py"),
    "server/monitoring": ("server/test_monitoring.py",),
    "server": ("server/test_serve_listener.py", "server/test_slow_client.py", "server/test_tls.py"),
    "spark/sink": ("spark/test_sink.py", "spark/test_exactly.py"),
    "spark/source": ("spark/test_source.py", "spark/test_stream.py"),
    "spark": ("spark/test_read.py", "spark/test_stream.py"),
    "store/fs": ("server/test_serve.py",),
    "store/read/scrub": ("server/test_scrub.py", "server/test_healing.py"),
    "store/tools": ("server/test_store_command.py",),
    "store": ("server/test_broker.py", "server/test_killing.py", "server/test_damage.py", "server/test_simulation.py"),
    "wire/http2": ("server/test_grpc.py",),
    "wire": ("server/test_producer.py", "server/test_decompression_limits.py"),
}
"""Files below ``tests`` by the beginning of a source file's name, without the suffix ``.py``."""


def higher_files(source: str, tests: Path) -> list[Path]:
    """Test files for a source file such as ``broker/pop/pop.py``: those of its longest beginnings first.

    Raise FileNotFoundError if one of them is gone.
    """
    parts = source.removesuffix(".py").split("/")
    beginnings = ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]
    files = [tests / name for name in dict.fromkeys(f for b in beginnings for f in HIGHER.get(b, ()))]
    for file in files:
        if not file.exists():
            raise FileNotFoundError(f"tests/mutants/tiers.py names {file}")
    return files
