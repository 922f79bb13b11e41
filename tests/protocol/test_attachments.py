"""What happens to pictures and files on their way to a provider."""

import base64
import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from multi_llm_chat import render
from multi_llm_chat.history import Media
from multi_llm_chat.protocol.attachments import (
    LONGEST_TEXT,
    decode_base64,
    dimensions,
    media_label,
    scale_picture,
    sniff,
)
from multi_llm_chat.protocol.providers import ROWS


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def picture(width: int = 4, height: int = 3, form: str = "PNG", mode: str = "RGB") -> bytes:
    written = io.BytesIO()
    Image.new(mode, (width, height)).save(written, form)
    return written.getvalue()


def message(*media: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "text", "content": "Look."}, *media]}]


def attachment(content: bytes, mime: str, **more: Any) -> dict[str, Any]:
    return {"type": "media", "mime": mime, "data": encoded(content), **more}


# Base64 (GEM-25).


@given(st.binary())
def test_both_alphabets_are_read_with_and_without_padding(content: bytes):
    standard, other = encoded(content), base64.urlsafe_b64encode(content).decode("ascii")
    for text in (standard, standard.rstrip("="), other, other.rstrip("="), f" {standard}\n"):
        assert decode_base64(text) == content


@given(st.text(alphabet="ÄÖ!?#", min_size=1))
def test_what_is_no_base64_has_no_bytes(text: str):
    assert decode_base64(text) == b""


@pytest.mark.parametrize("provider", ["anthropic", "openai", "gemini"])
def test_url_safe_data_is_sent_in_the_standard_alphabet(provider: str):
    content = picture(64, 64) + b"\xfb\xff\xfe"
    data = base64.urlsafe_b64encode(content).decode("ascii").rstrip("=")
    body = render(message({"type": "media", "mime": "image/png", "data": data}), provider).body
    assert encoded(content) in json.dumps(body)


# The bytes decide (ANT-39, OAI-26).


@pytest.mark.parametrize(("form", "mime"), [("PNG", "image/png"), ("JPEG", "image/jpeg"), ("GIF", "image/gif"), ("WEBP", "image/webp"), ("BMP", "image/bmp"), ("TIFF", "image/tiff")])  # fmt: skip
def test_the_type_of_a_picture_is_found_in_its_bytes(form: str, mime: str):
    assert sniff(picture(form=form)) == mime


def test_a_mislabelled_picture_is_sent_under_its_own_type():
    """ANT-39: Claude refuses a JPEG labelled as PNG, in this and every later request."""
    (sent,) = render(message(attachment(picture(form="JPEG"), "image/png")), "anthropic").body[
        "messages"
    ]
    assert sent["content"][1]["source"]["media_type"] == "image/jpeg"


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "WEBP"])
@given(width=st.integers(1, 3000), height=st.integers(1, 40))
def test_dimensions_are_read_from_the_head(form: str, width: int, height: int):
    assert dimensions(picture(width, height, form)) == (width, height)


@given(st.binary(max_size=64))
def test_any_bytes_have_a_type_and_dimensions_or_none(content: bytes):
    for head in (b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"RIFF0000WEBP"):
        found = dimensions(head + content)
        assert found is None or len(found) == 2


# Text files.


@pytest.mark.parametrize("provider", sorted(ROWS))
@pytest.mark.parametrize(
    ("mime", "name"),
    [
        ("text/csv", "staff.csv"),
        ("text/markdown", "notes.md"),
        ("application/json", "data.json"),
        ("application/octet-stream", "main.rs"),
    ],
)
def test_every_model_gets_the_content_of_a_text_file(provider: str, mime: str, name: str):
    content = "name;salary\nAda;100 — ¥\n"
    body = render(message(attachment(content.encode(), mime, name=name)), provider).body
    written = json.dumps(body, ensure_ascii=False)
    inlined = json.dumps(content.strip(), ensure_ascii=False)[1:-1]
    assert inlined in written or encoded(content.encode()) in written
    assert name in written or encoded(content.encode()) in written


@given(st.text(alphabet="`\n a", max_size=40))
def test_the_fence_is_longer_than_any_inside(text: str):
    label = media_label(Media("text/plain", encoded(f"x{text}".encode()), None, "a.txt"))
    fence = label.split("\n")[1]
    assert set(fence) == {"`"}
    assert fence not in f"x{text}"
    assert label.endswith(f"\n{fence}")


def test_a_long_text_file_is_cut_and_says_so():
    label = media_label(Media("text/plain", encoded(b"x" * (LONGEST_TEXT + 5)), None, "long.txt"))
    assert label.endswith("[cut: 5 more characters]")
    assert "x" * LONGEST_TEXT in label
    assert "x" * (LONGEST_TEXT + 1) not in label


@pytest.mark.parametrize(("content", "words"), [("é".encode("latin-1"), "é"), ("é".encode("utf-16"), "é"), (b"\xef\xbb\xbfa", "a")])  # fmt: skip
def test_other_encodings_are_read(content: bytes, words: str):
    assert f"\n{words}\n" in media_label(Media("text/plain", encoded(content), None, "a.txt"))


def test_a_file_that_cannot_be_sent_is_described_and_noted():
    made = render(
        message(attachment(b"PK\x03\x04zip", "application/zip", name="all.zip")), "anthropic"
    )
    assert "[attachment: all.zip, application/zip]" in json.dumps(made.body)
    assert [note.message for note in made.notes] == [
        "written as text: [attachment: all.zip, application/zip]"
    ]


# Limits (ANT-37, ANT-38, ANT-40, ANT-41, OAI-27, GEM-29).


def sent_pictures(body: Any) -> list[bytes]:
    blocks: list[Any] = [block for each in body["messages"] for block in each["content"]]
    return [
        base64.b64decode(block["source"]["data"]) for block in blocks if block["type"] == "image"
    ]


def test_a_picture_with_sides_above_the_limit_is_scaled_and_noted():
    """ANT-38."""
    made = render(message(attachment(picture(9000, 20), "image/png")), "anthropic")
    (sent,) = sent_pictures(made.body)
    assert max(dimensions(sent) or (0,)) == 2000
    assert [note.rule for note in made.notes] == ["ANT-38"]


@pytest.mark.parametrize("form", ["WEBP", "GIF"])
def test_a_picture_of_a_type_that_grok_does_not_read_is_converted(form: str):
    """XAI-06."""
    written = io.BytesIO()
    Image.new("RGB", (3000, 20)).save(written, form)
    content = written.getvalue()
    made = render(message(attachment(content, f"image/{form.lower()}")), "xai")
    (part,) = [part for part in made.body["messages"][0]["content"] if part["type"] != "text"]
    mime, _, data = part["image_url"]["url"].removeprefix("data:").partition(";base64,")
    assert mime in {"image/jpeg", "image/png"}
    assert dimensions(base64.b64decode(data)) == (3000, 20)  # converted, not scaled
    assert [note.rule for note in made.notes] == ["XAI-06"]
    assert made.notes[0].message.startswith("converted")
    png = render(message(attachment(picture(20, 20), "image/png")), "xai")
    assert png.notes == ()


def test_a_picture_that_cannot_be_converted_is_described():
    """XAI-06."""
    made = render(
        message(attachment(b"RIFF\0\0\0\0WEBPbroken", "image/webp", name="a.webp")), "xai"
    )
    assert "a.webp" in json.dumps(made.body)
    assert "image_url" not in json.dumps(made.body)
    assert [note.rule for note in made.notes] == ["XAI-06"]


def test_more_than_twenty_pictures_have_a_smaller_limit():
    """ANT-38: the limit counts the pictures of all turns."""
    wide = attachment(picture(3000, 10), "image/png")
    few = render(message(*[wide] * 20), "anthropic")
    many = render([*message(*[wide] * 11), *message(*[wide] * 10)], "anthropic")
    assert {dimensions(each) for each in sent_pictures(few.body)} == {(3000, 10)}
    assert max(max(dimensions(each) or (0,)) for each in sent_pictures(many.body)) == 2000


def test_a_picture_with_too_many_bytes_is_scaled():
    """ANT-37."""
    noise = Image.effect_noise((2400, 2400), 90).convert("RGB")
    written = io.BytesIO()
    noise.save(written, "PNG")
    content = written.getvalue()
    assert len(encoded(content)) > 10_485_760
    (sent,) = sent_pictures(render(message(attachment(content, "image/png")), "anthropic").body)
    assert len(encoded(sent)) <= 10_485_760


def test_the_newest_pictures_are_sent_where_there_are_too_many():
    """ANT-40."""
    pictures = [attachment(picture(4, 4 + number), "image/png") for number in range(101)]
    made = render(message(*pictures), "anthropic")
    sizes = [dimensions(each) for each in sent_pictures(made.body)]
    assert sizes == [(4, 4 + number) for number in range(1, 101)]
    assert "a request may hold 100 pictures" in json.dumps(made.body)


def test_pictures_inside_results_count_and_are_scaled():
    call: dict[str, Any] = {"name": "look", "arguments": {}, "tool_call_id": "c1"}
    history: list[dict[str, Any]] = [
        {"role": "user", "content": "Look."},
        {"role": "claude", "content": [{"type": "tool_call", "content": call}]},
        {"role": "tool", "content": [{"type": "tool_result", "name": "look", "tool_call_id": "c1", "content": [attachment(picture(9000, 20), "image/png")]}]},
    ]  # fmt: skip
    made = render(history, "anthropic")
    assert "ANT-38" in [note.rule for note in made.notes]
    assert '"type": "image"' in json.dumps(made.body)


def test_a_pdf_with_too_many_pages_is_described():
    """ANT-41."""
    content = b"%PDF-1.4\n" + b"<< /Type /Page >>\n" * 101
    made = render(message(attachment(content, "application/pdf", name="long.pdf")), "anthropic")
    assert "long.pdf, application/pdf: not sent, it has more than 100 pages" in json.dumps(
        made.body
    )


def test_a_damaged_picture_is_not_scaled():
    assert scale_picture(b"\x89PNG\r\n\x1a\nbroken", 2000, None) is None


@pytest.mark.parametrize("mime", ["image/png", "image/jpeg", "image/gif", "image/webp"])
@pytest.mark.parametrize("provider", ["openai-chat", "openai", "anthropic", "gemini", "azure"])
def test_oai_26_a_file_that_is_no_image_is_not_sent_as_one(provider: str, mime: str):
    table, noise = attachment(b"name,age\nAnna,7\n", mime), attachment(b"\xfe\x00\x01", mime)
    body = json.dumps(render(message(table, noise), provider).body)
    assert mime not in body.replace(f"[attachment: {mime}]", "")
    assert "Anna,7" in body or table["data"] in body  # Gemini reads text as data
