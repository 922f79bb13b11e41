"""Write a request for Gemini's generateContent.

Rules:
1. Contents alternate between model and user, and all responses to one turn's calls stand in one
   content of their own, in the order of the calls.
2. A signature goes back on the part it came on; parts are never merged.
3. From generation 3 on the first call of every step bears a signature: its own, or the documented
   value that skips the check.
4. Arguments and responses are objects.
"""

import base64
from collections.abc import Iterator, Sequence

from multi_llm_chat.history.arguments import parse_arguments
from multi_llm_chat.history.json_values import as_object, compact_json
from multi_llm_chat.history.reader import split_result
from multi_llm_chat.history.values import (
    JsonObject,
    Media,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from multi_llm_chat.protocol._model_families import gemini_generation, signs_calls
from multi_llm_chat.protocol.request_draft import (
    Encoded,
    Loss,
    RequestDraft,
    choose_tool,
    effort_of,
    limit_tools,
    media_label,
    settle_media,
    system_text,
    without_nothing,
    written_as_text,
)
from multi_llm_chat.schema.dialect_rules import GEMINI_JSON_SCHEMA
from multi_llm_chat.schema.tool_schema import recall_projection

#: The documented value for calls that were not signed here; the field is base64 of bytes.
SKIP_SIGNATURE = base64.b64encode(b"skip_thought_signature_validator").decode()

_SIGNATURE = "thoughtSignature"
#: What can be sent inline, from the guides on images, audio, video and documents.
_INLINE = frozenset(
    f"{kind}/{name}"
    for kind, names in {
        "image": "png jpeg webp heic heif",
        "audio": "wav mpeg aiff aac ogg flac",
        "video": "mp4 mpeg quicktime webm wmv 3gpp x-flv",
        "application": "pdf",
    }.items()
    for name in names.split()
)
_MOST_TOOLS = 512
_MOST_STOPS = 5
_LEVELS = {"none": "low", "minimal": "minimal", "low": "low", "medium": "medium", "high": "high"}
_BUDGETS = {"none": 0, "minimal": 512, "low": 1024, "medium": 8192}


def encode(draft: RequestDraft) -> Encoded:
    """The request's body and path."""
    system, turns = system_text(draft.turns)
    if draft.system_prompt:
        system = [draft.system_prompt, *system]
    body: JsonObject = {"contents": write_contents(turns, draft.model)}
    if system:
        body["systemInstruction"] = {"parts": [{"text": text} for text in system]}
    body |= _tools(draft)
    settings = _settings(draft)
    if settings:
        body["generationConfig"] = settings
    draft.note_losses(_loss)
    verb = "streamGenerateContent?alt=sse" if draft.stream else "generateContent"
    return Encoded(body | draft.options.extra, f"/models/{draft.model}:{verb}")


def write_contents(turns: Sequence[Turn], model: str) -> list[JsonObject]:
    """The contents of a request."""
    contents: list[JsonObject] = []
    kind = ""
    shown: list[Media] = []
    inline, signs = gemini_generation(model) >= 3, signs_calls(model)
    for turn in turns:
        if turn.role == "tool":
            parts = [_response(part, inline, shown) for part in turn.parts]
        else:
            if shown:
                # Responses stand alone; what they could not carry follows as the user's.
                contents.append({"role": "user", "parts": [_media_part(item) for item in shown]})
                kind, shown = "user", []
            parts = list(_parts(turn, signs))
        now = turn.role if turn.role in ("user", "tool") else "model"
        if now == kind:
            contents[-1]["parts"].extend(parts)
        elif parts:
            contents.append({"role": "model" if now == "model" else "user", "parts": parts})
            kind = now
    if shown:
        contents.append({"role": "user", "parts": [_media_part(item) for item in shown]})
    return contents


def _parts(turn: Turn, signs: bool) -> Iterator[JsonObject]:
    """The turn's parts; ``signs`` says whether the first call of a step needs a signature."""
    signature: str | None = None
    unsigned_step = signs and turn.role != "user"
    for part in turn.parts:
        if isinstance(part, Thinking):
            if signature is not None:
                yield {"text": "", _SIGNATURE: signature}
                signature = None
            found = part.opaque.get(_SIGNATURE)
            found = found if isinstance(found, str) and found else None
            if not part.content:
                signature = found
            else:
                yield {"text": part.content, "thought": True} | _signed(found)
            continue
        written = _part(part)
        if type(part) is ToolCall:
            if signature is None and unsigned_step:
                signature = SKIP_SIGNATURE
            unsigned_step = False
        if signature is not None:
            written[_SIGNATURE] = signature
            signature = None
        yield written
    if signature is not None:
        yield {"text": "", _SIGNATURE: signature}


def _signed(signature: str | None) -> JsonObject:
    return {} if signature is None else {_SIGNATURE: signature}


def _part(part: Part) -> JsonObject:
    if type(part) is Text:
        return {"text": part.content}
    if type(part) is ToolCall:
        call = {"id": part.tool_call_id, "name": part.name, "args": part.arguments}
        return {"functionCall": call}
    if type(part) is Media:
        return _media_part(part)
    raise AssertionError(f"{type(part).__name__} has no place in this turn")


def _media_part(part: Media) -> JsonObject:
    media = settle_media(part)
    if media is None or media.data is None:
        return {"text": media_label(part)}
    if media.mime in _INLINE:
        return {"inlineData": {"mimeType": media.mime, "data": media.data}}
    return {"text": media_label(part)}


def _loss(part: Media | Thinking, turn: Turn) -> Loss | None:
    if isinstance(part, Thinking) or (turn.role != "system" and "inlineData" in _media_part(part)):
        return None
    return "GEM-DOC", written_as_text(part)


def _response(part: Part, inline: bool, shown: list[Media]) -> JsonObject:
    assert isinstance(part, ToolResult)
    text, media = split_result(part.content)
    if media:
        text = _labelled(text, media)
    response: JsonObject = {
        "id": part.tool_call_id,
        "name": part.name,
        "response": _response_object(part, text),
    }
    carried = [item for item in media if "inlineData" in _media_part(item)]
    if inline and carried:
        response["parts"] = [_media_part(item) for item in carried]
    else:
        shown.extend(carried)
    return {"functionResponse": response}


def _labelled(text: str, media: Sequence[Media]) -> str:
    """The text with the label of each medium behind it, unless the text has it already."""
    labels = [media_label(settle_media(item) or item) for item in media]
    added = [label for label in labels if label not in text]
    return "\n".join(line for line in [text, *added] if line.strip())


def _response_object(part: ToolResult, text: str) -> JsonObject:
    if part.is_error:
        return {"error": text}
    if isinstance(part.content, str):
        # Many tools answer with JSON as text; an object says more than a string that holds one.
        if not part.content.lstrip().startswith("{"):
            return {"result": text}
        structured, written, error = parse_arguments(part.content)
        return structured if structured and written and not error else {"result": text}
    structured = as_object(part.content)
    if structured is not None:
        return structured
    # A list of our own parts becomes their text; any other value goes as it is.
    return {"result": part.content if compact_json(part.content) == text else text}


def _tools(draft: RequestDraft) -> JsonObject:
    declarations: list[JsonObject] = []
    for tool in limit_tools(draft, _MOST_TOOLS, "OAI-13"):
        projected = recall_projection(tool.schema, GEMINI_JSON_SCHEMA)
        for dropped in projected.dropped:
            draft.note("GEM-13", f"{tool.name}: {dropped}")
        declaration: JsonObject = {"name": tool.name, "parametersJsonSchema": projected.schema}
        if tool.description:
            declaration["description"] = tool.description
        declarations.append(declaration)
    if not declarations:
        return {}
    body: JsonObject = {"tools": [{"functionDeclarations": declarations}]}
    choice = choose_tool(draft, "OAI-15")
    if choice is not None:
        modes = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
        calling: JsonObject = {"mode": modes.get(choice, "ANY")}
        if choice not in modes:
            calling["allowedFunctionNames"] = [choice]
        body["toolConfig"] = {"functionCallingConfig": calling}
    return body


def _settings(draft: RequestDraft) -> JsonObject:
    options = draft.options
    settings = without_nothing(maxOutputTokens=options.max_tokens, temperature=options.temperature)
    if options.stop:
        settings["stopSequences"] = list(options.stop[:_MOST_STOPS])
        if len(options.stop) > _MOST_STOPS:
            draft.note("GEM-DOC", f"{_MOST_STOPS} stop sequences at most: left out the others")
    if options.thinking is not None:
        settings["thinkingConfig"] = _thinking(draft)
    if options.schema is not None and draft.tools and not signs_calls(draft.model):
        draft.note("GEM-19", "structured output and tools exclude each other here: left it out")
    elif options.schema is not None:
        settings["responseMimeType"] = "application/json"
        settings["responseJsonSchema"] = recall_projection(
            options.schema, GEMINI_JSON_SCHEMA
        ).schema
    return settings


def _thinking(draft: RequestDraft) -> JsonObject:
    """A level from generation 3 on, a budget before."""
    wanted = draft.options.thinking
    shown = {"includeThoughts": True} if wanted else {}
    if wanted is True:
        return shown
    if signs_calls(draft.model):
        return shown | {"thinkingLevel": _LEVELS.get(effort_of(wanted) or "", "high")}
    if isinstance(wanted, str):
        return shown | {"thinkingBudget": _BUDGETS.get(wanted, 24576)}
    return shown | {"thinkingBudget": int(wanted or 0)}
