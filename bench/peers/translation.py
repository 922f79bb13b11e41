"""Translate our serialised history to the vendors' own messages, as a plain application would.

Rules:
1. One turn becomes one message (a tool turn one for each result where the format wants that); nothing is repaired, moved, merged or invented.
2. Every role other than ``user``, ``system`` and ``tool`` is the assistant, as in an application with one model.
3. Content that a format cannot express is left out as its documentation says: thinking on Chat Completions, system turns inside
   ``messages`` (Anthropic and Gemini have a separate field for them).
4. Only the standard library: this module runs inside the peers' environments.
"""

import json
from typing import Any

Body = dict[str, Any]


def parts_of(turn: Body) -> list[Body]:
    """Return the parts of a turn; a string is one text."""
    content = turn["content"]
    if isinstance(content, str):
        return [{"type": "text", "content": content}]
    return [
        {"type": "text", "content": part} if isinstance(part, str) else part for part in content
    ]


def role_of(turn: Body) -> str:
    """Return ``user``, ``system``, ``tool`` or ``assistant``."""
    return turn["role"] if turn["role"] in ("user", "system", "tool") else "assistant"


def texts(parts: list[Body]) -> str:
    """Return the joined texts of some parts."""
    return "\n".join(part["content"] for part in parts if part["type"] == "text")


def result_text(part: Body) -> str:
    """Return a tool result as text."""
    content = part["content"]
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def arguments_text(part: Body) -> str:
    """Return the arguments of a call as JSON, or as the model wrote them."""
    call = part["content"]
    return (
        call["raw_arguments"]
        if "raw_arguments" in call
        else json.dumps(call["arguments"], ensure_ascii=False)
    )


def data_url(part: Body) -> str:
    """Return a picture as a data URL."""
    return part.get("url") or f"data:{part['mime']};base64,{part['data']}"


# Chat Completions


def chat(history: list[Body]) -> list[Body]:
    """Return messages of Chat Completions."""
    made: list[Body] = []
    for turn in history:
        role, parts = role_of(turn), parts_of(turn)
        results = [part for part in parts if part["type"] == "tool_result"]
        others = [part for part in parts if part["type"] != "tool_result"]
        made += [
            {"role": "tool", "tool_call_id": part["tool_call_id"], "content": result_text(part)}
            for part in results
        ]
        if others or not results:
            made.append(_chat_message("user" if role == "tool" else role, others))
    return made


def _chat_message(role: str, parts: list[Body]) -> Body:
    calls = [
        {"id": part["content"]["tool_call_id"], "type": "function",
         "function": {"name": part["content"]["name"], "arguments": arguments_text(part)}}
        for part in parts if part["type"] == "tool_call"
    ]  # fmt: skip
    media = [part for part in parts if part["type"] == "media"]
    content: Any = texts(parts)
    if media and role == "user":
        written = [{"type": "text", "text": content}] if content else []
        content = written + [_chat_media(part) for part in media]
    message: Body = {"role": role, "content": content}
    if calls:
        message |= {"tool_calls": calls, "content": content or None}
    return message


def _chat_media(part: Body) -> Body:
    if part["mime"] == "application/pdf":
        return {
            "type": "file",
            "file": {"filename": part.get("name", "file.pdf"), "file_data": data_url(part)},
        }
    return {"type": "image_url", "image_url": {"url": data_url(part)}}


def chat_tool(tool: Body) -> Body:
    """Return a tool in the form of Chat Completions."""
    function = {
        "name": tool["name"],
        "description": tool.get("description", ""),
        "parameters": tool["inputSchema"],
    }
    return {"type": "function", "function": function}


# Responses


def responses(history: list[Body]) -> list[Body]:
    """Return input items of Responses, in the order of the parts."""
    made: list[Body] = []
    for turn in history:
        role, parts = role_of(turn), parts_of(turn)
        speaker = "user" if role == "tool" else role
        said: list[Body] = []
        for part in parts:
            if part["type"] in ("text", "media"):
                said.append(part)
                continue
            if said:
                made.append({"role": speaker, "content": _responses_content(role, said)})
                said = []
            made += _responses_item(part)
        if said or not parts:
            made.append({"role": speaker, "content": _responses_content(role, said)})
    return made


def _responses_item(part: Body) -> list[Body]:
    opaque = part.get("opaque", {})
    if part["type"] == "tool_call":
        call = part["content"]
        return [
            {
                "type": "function_call",
                "call_id": call["tool_call_id"],
                "name": call["name"],
                "arguments": arguments_text(part),
            }
        ]
    if part["type"] == "tool_result":
        return [
            {
                "type": "function_call_output",
                "call_id": part["tool_call_id"],
                "output": result_text(part),
            }
        ]
    if "encrypted_content" in opaque:
        summary = [{"type": "summary_text", "text": part["content"]}]
        return [
            {
                "type": "reasoning",
                "summary": summary,
                "encrypted_content": opaque["encrypted_content"],
            }
        ]
    return []


def _responses_content(role: str, parts: list[Body]) -> Any:
    media = [part for part in parts if part["type"] == "media"]
    if not media or role != "user":
        return texts(parts)
    written: list[Body] = [{"type": "input_text", "text": texts(parts)}] if texts(parts) else []
    for part in media:
        if part["mime"] == "application/pdf":
            written.append(
                {
                    "type": "input_file",
                    "filename": part.get("name", "file.pdf"),
                    "file_data": data_url(part),
                }
            )
        else:
            written.append({"type": "input_image", "image_url": data_url(part), "detail": "auto"})
    return written


def responses_tool(tool: Body) -> Body:
    """Return a tool in the form of Responses."""
    return {
        "type": "function",
        "name": tool["name"],
        "description": tool.get("description", ""),
        "parameters": tool["inputSchema"],
        "strict": False,
    }


# Anthropic


def anthropic(history: list[Body]) -> tuple[str, list[Body]]:
    """Return the system text, and the messages of Anthropic."""
    system = "\n".join(texts(parts_of(turn)) for turn in history if turn["role"] == "system")
    made: list[Body] = []
    for turn in history:
        if turn["role"] == "system":
            continue
        role, parts = role_of(turn), parts_of(turn)
        blocks = [block for part in parts if (block := _anthropic_block(part)) is not None]
        alone = len(blocks) == 1 and blocks[0]["type"] == "text"
        content = blocks[0]["text"] if alone else blocks
        made.append({"role": "assistant" if role == "assistant" else "user", "content": content})
    return system, made


def _anthropic_block(part: Body) -> Body | None:
    match part["type"]:
        case "text":
            return {"type": "text", "text": part["content"]}
        case "tool_call":
            call = part["content"]
            return {
                "type": "tool_use",
                "id": call["tool_call_id"],
                "name": call["name"],
                "input": call["arguments"],
            }
        case "tool_result":
            return {
                "type": "tool_result",
                "tool_use_id": part["tool_call_id"],
                "content": result_text(part),
            }
        case "thinking":
            opaque = part.get("opaque", {})
            # Only signed thinking can be sent; it is a thinking block whichever provider signed it.
            return (
                {"type": "thinking", "thinking": part["content"], "signature": opaque["signature"]}
                if "signature" in opaque
                else None
            )
        case _:
            kind = "document" if part["mime"] == "application/pdf" else "image"
            source: Body = (
                {"type": "url", "url": part["url"]}
                if "url" in part
                else {"type": "base64", "media_type": part["mime"], "data": part["data"]}
            )
            return {"type": kind, "source": source}


def anthropic_tool(tool: Body) -> Body:
    """Return a tool in the form of Anthropic."""
    return {
        "name": tool["name"],
        "description": tool.get("description", ""),
        "input_schema": tool["inputSchema"],
    }


# Gemini


def gemini(history: list[Body]) -> tuple[str, list[Body]]:
    """Return the system text, and the contents of Gemini."""
    system = "\n".join(texts(parts_of(turn)) for turn in history if turn["role"] == "system")
    made: list[Body] = []
    for turn in history:
        if turn["role"] == "system":
            continue
        role = "model" if role_of(turn) == "assistant" else "user"
        written = [part for one in parts_of(turn) if (part := _gemini_part(one)) is not None]
        made.append({"role": role, "parts": written})
    return system, made


def _gemini_part(part: Body) -> Body | None:
    match part["type"]:
        case "text":
            return {"text": part["content"]}
        case "tool_call":
            call = part["content"]
            signature = call.get("signature")
            made: Body = {
                "functionCall": {
                    "id": call["tool_call_id"],
                    "name": call["name"],
                    "args": call["arguments"],
                }
            }
            return made | ({"thoughtSignature": signature} if signature else {})
        case "tool_result":
            content = part["content"]
            response = part["content"] if isinstance(content, dict) else {"result": content}
            return {
                "functionResponse": {
                    "id": part["tool_call_id"],
                    "name": part["name"],
                    "response": response,
                }
            }
        case "thinking":
            return None
        case _:
            if "url" in part:
                return {"fileData": {"mimeType": part["mime"], "fileUri": part["url"]}}
            return {"inlineData": {"mimeType": part["mime"], "data": part["data"]}}


def gemini_tool(tool: Body) -> Body:
    """Return a function in the form of Gemini."""
    return {
        "name": tool["name"],
        "description": tool.get("description", ""),
        "parametersJsonSchema": tool["inputSchema"],
    }
