"""Messages with a broken multipart body: each is sent or refused with an error text, and the server keeps running."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.web.server_process import run_server

BOUNDARY = "boundary"
_NAMES = st.sampled_from(["text", "to", "memo", "files", "", "files[]"]) | st.text(max_size=5)
_VALUES = st.binary(max_size=60) | st.sampled_from([
    b"", b"\x00", b"%PDF-1.7", b"\x89PNG\r\n\x1a\n", b"--boundary", b"\r\n--boundary--\r\n", "ü‮".encode(),
])  # fmt: skip
_TYPES = st.sampled_from(
    ["", "text/plain", "image/png", "text/csv; charset=utf-16", "a/b;;=", "\x00"]
)
_ENDS = st.sampled_from(["\r\n", "\n", "\r", ""])


@st.composite
def parts(draw: st.DrawFn) -> bytes:
    """Draw one part, approximately as a browser writes it."""
    end = draw(_ENDS) if draw(st.integers(0, 9)) == 0 else "\r\n"
    heads = [f'Content-Disposition: form-data; name="{draw(_NAMES)}"']
    if draw(st.booleans()):
        heads[0] += f'; filename="{draw(st.text(max_size=8))}"'
    if kind := draw(_TYPES):
        heads.append(f"Content-Type: {kind}")
    if draw(st.integers(0, 9)) == 0:
        heads.append(draw(st.text(max_size=20)))
    head = "".join(line + end for line in [f"--{BOUNDARY}", *heads, ""])
    return head.encode(errors="surrogatepass") + draw(_VALUES) + end.encode()


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Draw a body of some parts, with a few bytes changed."""
    body = b"".join(draw(st.lists(parts(), max_size=13)))
    body += draw(
        st.sampled_from([f"--{BOUNDARY}--\r\n", f"--{BOUNDARY}--", f"--{BOUNDARY}", ""])
    ).encode()
    for _ in range(draw(st.sampled_from([0, 0, 1, 3]))):
        at = draw(st.integers(0, len(body)))
        body = body[:at] + draw(st.binary(max_size=4)) + body[at + draw(st.integers(0, 4)) :]
    return body


def test_any_multipart_body_is_a_message_or_refused(tmp_path: Path):
    kind = st.sampled_from([BOUNDARY, BOUNDARY, BOUNDARY, "other", '"', "", "b" * 80])
    with run_server(tmp_path) as server, server.signed_in_client() as client:

        @given(bodies(), kind)
        def send(body: bytes, boundary: str) -> None:
            head = {"content-type": f"multipart/form-data; boundary={boundary}"}
            answer = client.post("/c/one/messages", content=body, headers=head)
            assert answer.status_code in (200, 400, 409, 413, 415, 422), answer.text
            assert answer.text.strip()

        send()
        assert client.get("/healthz").text == "ok\n"


def test_a_form_that_is_cut_off_is_refused_instead_of_losing_its_file(tmp_path: Path):
    form = (
        b'--b\r\nContent-Disposition: form-data; name="memo"\r\n\r\n1\r\n'
        b'--b\r\nContent-Disposition: form-data; name="files"; filename="a.txt"\r\n\r\nwords'
    )
    head = {"content-type": "multipart/form-data; boundary=b"}
    with run_server(tmp_path) as server, server.signed_in_client() as client:
        answer = client.post("/c/one/messages", content=form, headers=head)
        assert (answer.status_code, "cut off" in answer.text) == (400, True)
        whole = form + b"\r\n--b--\r\n"
        assert client.post("/c/one/messages", content=whole, headers=head).status_code == 200
        assert "words" in client.get("/c/one").text
