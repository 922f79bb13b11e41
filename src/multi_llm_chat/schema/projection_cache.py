"""Projections of schemas, remembered: the same tools are offered in request after request.

Rules:
1. The key is the schema's own JSON text, so that a changed schema is another schema.
2. What is handed out is a fresh value every time: nobody can change what is remembered.
3. The memory is bounded; what cannot be written as JSON is projected anew each time.
"""

from collections import OrderedDict

import msgspec

from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.schema.tool_schema import Projected, SchemaRules, project_schema

_MOST = 1024
_UNWRITABLE = (TypeError, ValueError, OverflowError, RecursionError)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict).decode

#: Rules are compared by identity (they are constants), so each entry also keeps them alive.
_remembered: OrderedDict[tuple[int, bytes], tuple[SchemaRules, Projected, bytes]] = OrderedDict()


def recall_projection(schema: JsonObject, rules: SchemaRules) -> Projected:
    """Like ``project_schema``, from memory where possible."""
    try:
        key = (id(rules), _encode(schema))
    except _UNWRITABLE:
        return project_schema(schema, rules)
    found = _remembered.get(key)
    if found is not None and found[0] is rules:
        _, projected, text = found
        return Projected(_decode(text), projected.dropped, projected.renamed)
    projected = project_schema(schema, rules)
    _remembered[key] = (rules, projected, _encode(projected.schema))
    if len(_remembered) > _MOST:
        # A lost race between threads costs a second projection, never a wrong one.
        _remembered.popitem(last=False)
    return projected
