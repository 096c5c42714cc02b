"""SQL92 filters: expressions over a message's properties, understood and judged exactly as Java brokers do.

Knows the grammar (``parser``), three-valued logic (``evaluate``) and Java's ways with numbers (``numbers``). Refuses to
know messages: an expression is compiled once and asked about mappings of property names to values, which are texts.

What surprises those who know SQL:

- A number decides how a property is read: ``a > 5`` needs a 32-bit integer, ``a > 2.5`` a decimal number. A property
  that is not of that form is an error, and an error is no match.
- Only ``IS NULL`` matches a property that is absent; ``a <> 'x'`` does not. But ``5 <> a`` does.
- An expression has at most 65,536 characters, and 4,096 values, property names, signs, NOTs and parentheses but for the
  texts of ``IN``. Java brokers have no such limits; here one expression may not keep a broker from all others.
- Reading stops after the first complete expression; what follows is not looked at. :attr:`SqlFilter.unread` has it.
"""

from __future__ import annotations

from rocketmq_py.core.sql92.compiled import SqlFilter, compile_sql
from rocketmq_py.core.sql92.evaluate import EvaluationError
from rocketmq_py.core.sql92.parser import check_length

__all__ = ["EvaluationError", "SqlFilter", "check_length", "compile_sql"]
