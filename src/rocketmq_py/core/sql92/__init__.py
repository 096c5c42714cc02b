"""SQL92 filters: expressions over a message's properties, parsed and evaluated exactly as Java brokers do.

``parser`` has the grammar, ``evaluate`` three-valued logic, ``numbers`` Java's numbers. An expression is compiled once
and evaluated on mappings of property names to texts.

Differences from SQL:

- A number decides how a property is read: ``a > 5`` needs a 32-bit integer, ``a > 2.5`` a decimal number. A property
  of another form is an error, and an error is no match.
- Only ``IS NULL`` matches an absent property; ``a <> 'x'`` does not. But ``5 <> a`` does.
- An expression has at most 65,536 characters, and 4,096 values, property names, signs, NOTs and parentheses, not
  counting the texts of ``IN``. Java brokers have no such limits; here they keep an expression from blocking the broker.
- Parsing stops after the first complete expression; the rest is ignored. :attr:`SqlFilter.unread` has it.
"""

from __future__ import annotations

from rocketmq_py.core.sql92.compiled import SqlFilter, compile_sql
from rocketmq_py.core.sql92.evaluate import EvaluationError
from rocketmq_py.core.sql92.parser import check_length

__all__ = ["EvaluationError", "SqlFilter", "check_length", "compile_sql"]
