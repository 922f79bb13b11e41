"""Write a request for Gemini's generateContent.

Rules:
1. Contents alternate between model and user, and all responses to one turn's calls are in one
   content of their own, in the order of the calls.
2. A signature is sent back with the part it came with; parts are never merged.
3. From generation 3 on, the first call of every step must have a signature: its own, or the documented
   value that skips the check.
4. Arguments and responses are objects.
"""

import base64
from collections.abc import Sequence
from mimetypes import guess_type

from multi_llm_chat.history.arguments import parse_arguments
from multi_llm_chat.history.citations import cited_text
from multi_llm_chat.history.json_values import as_object, as_text, compact_json
from multi_llm_chat.history.native_text import native_text
from multi_llm_chat.history.reader import split_result
from multi_llm_chat.history.values import (
    JsonObject,
    Media,
    Native,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from multi_llm_chat.protocol.attachments import is_spelling
from multi_llm_chat.protocol.capabilities import (
    gemini_family,
    gemini_generation,
    nearest_effort,
    signs_calls,
)
from multi_llm_chat.protocol.gemini.native_parts import REPLY_ONLY, unsigned, with_extras
from multi_llm_chat.protocol.gemini.read import read_response_content
from multi_llm_chat.protocol.request_draft import (
    Encoded,
    Loss,
    RequestDraft,
    choose_tool,
    effort_of,
    further_options,
    limit_tools,
    media_label,
    settle_media,
    system_text,
    temperature_of,
    texts_in_turn,
    without_nothing,
    written_as_text,
)
from multi_llm_chat.protocol.server_tools import write_gemini
from multi_llm_chat.repair.policy import Note
from multi_llm_chat.repair.sorting import EMPTY_RESULT
from multi_llm_chat.schema.dialect_rules import GEMINI_JSON_SCHEMA
from multi_llm_chat.schema.tool_schema import recall_projection

#: The documented value for calls without a signature of this model; the field is base64 of bytes.
SKIP_SIGNATURE = base64.b64encode(b"skip_thought_signature_validator").decode()

_SIGNATURE = "thoughtSignature"
#: The types that can be sent inline, from the guides on images, audio, video and documents.
_INLINE = frozenset(
    f"{kind}/{name}"
    for kind, names in {
        "image": "png jpeg webp heic heif",
        "audio": "wav mpeg aiff aac ogg flac",
        "video": "mp4 mpeg quicktime webm wmv 3gpp x-flv",
        "application": "pdf",
        "text": "plain",
    }.items()
    for name in names.split()
)
#: The types that a function response can contain on Gemini 3 and later (GEM-24).
_ANSWERED = frozenset({"image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"})
#: URLs that Google fetches: its own files, YouTube, public URLs, and buckets on Vertex (GEM-23).
_ADDRESSES = ("https://", "http://", "gs://")
_ADDRESSED = frozenset({"image", "audio", "video", "text"})
_UNTYPED = frozenset({"application/octet-stream"})
_MOST_TOOLS = 512
_MOST_STOPS = 5
_DYNAMIC = -1  # the model decides
_BUDGETS = {"none": 0, "minimal": 512, "low": 1024, "medium": 8192}


def encode(draft: RequestDraft) -> Encoded:
    """The request's body and path."""
    texts, turns = system_text(draft)
    system = [draft.system_prompt, *texts] if draft.system_prompt else texts
    writer = _ContentWriter(draft)
    body: JsonObject = {
        "contents": writer.write(turns, draft.sources[len(draft.turns) - len(turns) :])
    }
    if system:
        body["systemInstruction"] = {"parts": [{"text": text} for text in system]}
    body |= _tools(draft)
    has_server_parts = writer.has_server_parts or "server_parts" in draft.state
    if has_server_parts:
        body["toolConfig"] = body.get("toolConfig", {}) | {"includeServerSideToolInvocations": True}
    settings = _settings(draft)
    if settings:
        body["generationConfig"] = settings
    if draft.options.extra.get("cachedContent"):
        _leave_to_cache(draft, body)
    draft.note_losses(writer.loss)
    verb = "streamGenerateContent?alt=sse" if draft.stream else "generateContent"
    return Encoded(
        body | draft.options.extra,
        f"/models/{draft.model.removeprefix('models/')}:{verb}",
        stable=writer.stable,
        system_texts=tuple(texts),
        state={"server_parts": True} if has_server_parts else {},
    )


def _leave_to_cache(draft: RequestDraft, body: JsonObject) -> None:
    """Remove the fields that only the cached content may have (GEM-31)."""
    for key in ("systemInstruction", "tools", "toolConfig"):
        if body.pop(key, None) is not None:
            draft.note("GEM-31", f"left out {key}: the cached content has it")


class _ContentWriter:
    """Writes the contents of one request."""

    def __init__(self, draft: RequestDraft) -> None:
        self._draft = draft
        self._inline = gemini_generation(draft.model) >= 3
        self._signs = signs_calls(draft.model)
        self._shown: list[Media] = []
        self._described: set[tuple[int, int]] = set()
        #: Whether the contents have calls of tools that Google runs.
        self.has_server_parts = False
        #: How many contents stand before the draft's tail.
        self.stable = 0

    def write(self, turns: Sequence[Turn], sources: Sequence[int | None]) -> list[JsonObject]:
        """The contents."""
        tail = self._draft.tail - (len(self._draft.turns) - len(turns))
        said_in_turn = texts_in_turn(self._draft, turns)
        if said_in_turn is None:
            return self._written(turns, sources, tail)
        self.stable = tail if 0 <= tail < len(turns) else 0
        return [
            {"role": "user" if is_user else "model", "parts": [{"text": text}]}
            for is_user, text in said_in_turn
        ]

    def _written(
        self, turns: Sequence[Turn], sources: Sequence[int | None], tail: int
    ) -> list[JsonObject]:
        contents: list[JsonObject] = []
        kind = ""
        if not self._draft.is_plain and any(
            type(part) is Native for turn in turns for part in turn.parts
        ):
            self._judge_natives(turns, sources)
        for at, turn in enumerate(turns):
            role = turn.role
            if role == "tool":
                parts = [self._response(part) for part in turn.parts]
            else:
                if self._shown:
                    # Responses have a content of their own; media that they cannot contain follow as user content.
                    contents.append({"role": "user", "parts": self._take_shown()})
                    kind = "user"
                if at == tail:
                    self.stable = len(contents)
                only = turn.parts[0] if len(turn.parts) == 1 else None
                if type(only) is Text and only.extras is None:
                    parts = [{"text": only.content}]
                else:
                    parts = self._usual_parts(turn) or self._parts(turn, at)
            now = role if role == "user" or role == "tool" else "model"
            if now == kind:
                contents[-1]["parts"].extend(parts)
            elif parts:
                contents.append({"role": "model" if now == "model" else "user", "parts": parts})
                kind = now
        if self._shown:
            contents.append({"role": "user", "parts": self._take_shown()})
        return contents

    def loss(self, part: Media | Thinking, turn: Turn) -> Loss | None:
        """Why media cannot be sent as it is; None if it can."""
        if isinstance(part, Thinking):
            return None
        is_sent = turn.role != "system" and "text" not in self._media_part(part)
        return None if is_sent else ("GEM-DOC", written_as_text(part))

    def _take_shown(self) -> list[JsonObject]:
        shown, self._shown = self._shown, []
        return [self._media_part(item) for item in shown]

    def _usual_parts(self, turn: Turn) -> list[JsonObject] | None:
        """The fast path for texts and calls; None if there is any other part or field."""
        parts: list[JsonObject] = []
        unsigned_step = self._signs and turn.role != "user"
        for part in turn.parts:
            if type(part) is ToolCall and part.extras is None:
                call = {"id": part.tool_call_id, "name": part.name, "args": part.arguments}
                if unsigned_step:
                    unsigned_step = False
                    parts.append({"functionCall": call, _SIGNATURE: SKIP_SIGNATURE})
                else:
                    parts.append({"functionCall": call})
            elif type(part) is Text and part.extras is None:
                parts.append({"text": part.content})
            else:
                return None
        return parts

    def _parts(self, turn: Turn, at: int) -> list[JsonObject]:
        """The turn's parts; from generation 3 on, the first call of a model's turn needs a signature."""
        parts: list[JsonObject] = []
        signature: str | None = None
        unsigned_step = self._signs and turn.role != "user"
        for position, part in enumerate(turn.parts):
            if type(part) is Thinking:
                if signature is not None:
                    parts.append({"text": "", _SIGNATURE: signature})
                written, signature = _thought(part)
                if written:
                    parts.append(written)
                continue
            if type(part) is Native and part.kind in REPLY_ONLY:
                continue
            written = self._part(part, (at, position))
            if type(part) is ToolCall:
                if signature is None and unsigned_step:
                    signature = SKIP_SIGNATURE
                unsigned_step = False
            if signature is not None:
                written[_SIGNATURE] = signature
                signature = None
            parts.append(written)
        if signature is not None:
            parts.append({"text": "", _SIGNATURE: signature})
        return parts

    def _part(self, part: Part, place: tuple[int, int]) -> JsonObject:
        if type(part) is Text:
            if part.extras is None:
                return {"text": part.content}
            fields = self._draft.extra_fields(part.extras)
            return with_extras({"text": part.content if fields else cited_text(part)}, fields)
        if type(part) is ToolCall:
            call = {"id": part.tool_call_id, "name": part.name, "args": part.arguments}
            written: JsonObject = {"functionCall": call}
            if part.extras is None:
                return written
            return with_extras(written, self._draft.extra_fields(part.extras))
        if type(part) is Media:
            return self._media_part(part)
        if type(part) is Native:
            return self._native(part, place)
        raise AssertionError(f"{type(part).__name__} has no place in this turn")

    def _native(self, part: Native, place: tuple[int, int]) -> JsonObject:
        if place in self._described:
            return {"text": native_text(part)}
        if part.origin.model == self._draft.model:
            return dict(part.raw)
        return unsigned(part.raw)  # a signature is valid only for the model that made it (GEM-34)

    def _judge_natives(self, turns: Sequence[Turn], sources: Sequence[int | None]) -> None:
        """Find the native parts that are not allowed in their places.

        These are calls and responses without a partner; for models that accept none, all of them.
        """
        waiting: set[str] = set()
        pairs: dict[str, list[tuple[int, int]]] = {}
        for at, turn in enumerate(turns):
            for position, part in enumerate(turn.parts):
                if type(part) is not Native or part.kind in REPLY_ONLY:
                    continue
                call, response = (
                    as_object(part.raw.get(key)) for key in ("toolCall", "toolResponse")
                )
                identifier = as_text((call or response or {}).get("id"))
                if call is not None and self._inline:
                    waiting.add(identifier)
                    pairs.setdefault(identifier, []).append((at, position))
                elif response is not None and identifier in waiting:
                    waiting.remove(identifier)
                    pairs[identifier] = []
                    self.has_server_parts = True
                elif call is not None or response is not None or _is_out_of_place(part, turn):
                    self._described.add((at, position))
        self._described |= {place for identifier in waiting for place in pairs[identifier]}
        for at, _ in sorted(self._described):
            message = "wrote a step of a tool on Google's side as text: it cannot stand here"
            self._draft.notes.append(Note("GEM-26", sources[at], message))

    def _media_part(self, part: Media) -> JsonObject:
        fields = {} if part.extras is None else self._draft.extra_fields(part.extras)
        media = settle_media(part)
        if media is not None and media.data is not None:
            # A text file of another origin is written as text with its name, for which the data has no field.
            named_text = media.mime.startswith("text/") and part.name and not fields
            if not self._is_inline(media.mime) or named_text:
                return {"text": media_label(part)}
            # Google's names of some types of sound are not the registered ones.
            mime = part.mime if is_spelling(part.mime, media.mime) else media.mime
            blob = {"mimeType": mime, "data": media.data}
            return with_extras({"inlineData": blob}, fields)
        address = part.url or ""
        if not address.startswith(_ADDRESSES) or not address.isprintable():
            return {"text": media_label(part)}
        mime = part.mime
        if mime == "image/png" and (guessed := guess_type(address.partition("?")[0])[0]):
            mime = guessed  # other systems mostly guess the type of a URL
        if mime.partition("/")[0] not in _ADDRESSED and mime not in _UNTYPED | _INLINE:
            return {"text": media_label(part)}
        typed = {} if mime in _UNTYPED else {"mimeType": mime}
        return with_extras({"fileData": typed | {"fileUri": address}}, fields)

    def _is_inline(self, mime: str) -> bool:
        """Whether data of this type can be sent; a GIF, which no guide mentions, from generation 3 on (GEM-29, recorded).

        Any type of text is read as plain text (ai.google.dev/gemini-api/docs/document-processing).
        """
        if mime == "image/gif":
            return self._inline
        return mime in _INLINE or mime.startswith("text/")

    def _response(self, part: Part) -> JsonObject:
        assert isinstance(part, ToolResult)
        if part.extras is None and type(part.content) is str:
            said = _response_object(part, part.content)
            plain = {"id": part.tool_call_id, "name": part.name, "response": said}
            return {"functionResponse": plain}
        fields = {} if part.extras is None else self._draft.extra_fields(part.extras)
        own = as_object(fields.get("functionResponse")) or {}
        response: JsonObject = {"id": part.tool_call_id, "name": part.name}
        if "response" in own:
            came, *_ = read_response_content(own)
            is_edited = part.content not in (came, EMPTY_RESULT)
            if not is_edited and (self._inline or "parts" not in own):
                return {"functionResponse": response | own}
            own = {key: value for key, value in own.items() if key not in ("response", "parts")}
        text, media = split_result(part.content)
        if media:
            text = _labelled(text, media)
        response["response"] = _response_object(part, text)
        written = [(item, self._media_part(item)) for item in media]
        carried = [(item, block) for item, block in written if "text" not in block]
        inside = [block for _, block in carried if self._inline and _mime_of(block) in _ANSWERED]
        if inside:
            response["parts"] = inside
        self._shown += [
            item for item, block in carried if not self._inline or _mime_of(block) not in _ANSWERED
        ]
        return {"functionResponse": response | own}


def _is_out_of_place(part: Native, turn: Turn) -> bool:
    return turn.role == "user" and part.kind in ("executableCode", "codeExecutionResult")


def _thought(part: Thinking) -> tuple[JsonObject, str | None]:
    """The thought, or the signature that belongs to the part after it."""
    found = part.opaque.get(_SIGNATURE)
    signature = found if isinstance(found, str) and found else None
    if part.content:
        return {"text": part.content, "thought": True} | _signed(signature), None
    if part.opaque.get("thought") is True:
        return {"thought": True} | _signed(signature), None
    return {}, signature


def _mime_of(part: JsonObject) -> str:
    inner: JsonObject = part.get("inlineData") or part.get("fileData") or {}
    return as_text(inner.get("mimeType"))


def _signed(signature: str | None) -> JsonObject:
    return {} if signature is None else {_SIGNATURE: signature}


def _labelled(text: str, media: Sequence[Media]) -> str:
    """The text followed by the label of each media part, unless the text already contains it."""
    labels = [media_label(settle_media(item) or item) for item in media]
    added = [label for label in labels if label not in text]
    return "\n".join(line for line in [text, *added] if line.strip())


def _response_object(part: ToolResult, text: str) -> JsonObject:
    if part.is_error:
        return {"error": text}
    if isinstance(part.content, str):
        # Many tools return JSON as text; it is sent as an object or a list, which models read better than a string with JSON.
        opening = part.content.lstrip()[:1]
        if opening not in ("{", "["):
            return {"result": text}
        whole = part.content if opening == "{" else f'{{"result":{part.content}}}'
        structured, written, error = parse_arguments(whole)
        return structured if structured and written and not error else {"result": text}
    structured = as_object(part.content)
    if structured is not None:
        return structured
    # A list of our own parts becomes their text; any other value is sent unchanged.
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
    server_tools = write_gemini(draft)
    if not declarations:
        return {"tools": server_tools} if server_tools else {}
    body: JsonObject = {"tools": [{"functionDeclarations": declarations}, *server_tools]}
    choice = choose_tool(draft, "OAI-15")
    config: JsonObject = {"includeServerSideToolInvocations": True} if server_tools else {}
    if server_tools and choice in (None, "auto"):
        config["functionCallingConfig"] = {"mode": "VALIDATED"}  # GEM-26
    elif choice is not None:
        modes = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
        calling: JsonObject = {"mode": modes.get(choice, "ANY")}
        if choice not in modes:
            calling["allowedFunctionNames"] = [choice]
        config["functionCallingConfig"] = calling
    return body | ({"toolConfig": config} if config else {})


def _settings(draft: RequestDraft) -> JsonObject:
    options = draft.options
    settings = without_nothing(
        maxOutputTokens=options.max_tokens, temperature=temperature_of(draft)
    )
    settings |= further_options(draft, {"top_p": "topP", "seed": "seed"}, "GEM-DOC")
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
    """A level or a budget, whichever the model accepts (GEM-28)."""
    wanted = draft.options.thinking
    shown = {"includeThoughts": True} if wanted else {}
    if wanted is True:
        return shown
    takes = gemini_family(draft.model)
    if takes.levels:
        word = "none" if not wanted else effort_of(wanted) or "high"
        level = nearest_effort(word, takes.levels)
        if level != word:
            draft.note("GEM-28", f"the level {word!r} is not known here: asked for {level!r}")
        return shown | {"thinkingLevel": level}
    asked = _BUDGETS.get(wanted, takes.most) if isinstance(wanted, str) else int(wanted or 0)
    if asked == _DYNAMIC or (asked == 0 and takes.off):
        return shown | {"thinkingBudget": asked}
    budget = min(max(asked, takes.least), takes.most)
    if budget != asked:
        draft.note("GEM-28", f"a budget of {asked} tokens is not possible here: asked for {budget}")
    return shown | {"thinkingBudget": budget}
