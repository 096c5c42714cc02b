"""SQL92 filters: expressions over a message's properties, parsed and evaluated exactly as Java brokers do.

The module ``parser`` has the grammar, ``evaluate`` the three-valued logic, ``numbers`` Java's numbers. An expression is
compiled once and then evaluated on mappings of property names to values, which are texts.

Differences from SQL:

- A property is converted to the type of the literal that it is compared with: ``a > 5`` needs a 32-bit integer,
  ``a > 2.5`` a decimal number. If that fails, the message does not match.
- An absent property matches only ``IS NULL``; ``a <> 'x'`` does not match without ``a``. But ``5 <> a`` does.
- An expression has at most 65,536 characters, and 4,096 values, property names, signs, NOTs and parentheses, not
  counting the texts of ``IN``. Java brokers have no such limits; here they keep an expression from blocking the broker.
- Parsing stops after the first complete expression; the rest, :attr:`SqlFilter.unread`, is ignored.
"""

from __future__ import annotations

from rocketmq_py.core.sql92.compiled import SqlFilter, compile_sql
from rocketmq_py.core.sql92.evaluate import EvaluationError
from rocketmq_py.core.sql92.parser import check_length

__all__ = ["EvaluationError", "SqlFilter", "check_length", "compile_sql"]
