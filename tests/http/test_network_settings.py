"""Proxies and certificates from the environment, as values."""

import pytest

from multi_llm_chat.errors import UsageError
from multi_llm_chat.http import TransportSettings, settings_from
from multi_llm_chat.http._network_settings import proxy_headers, tls_context

PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    ("environment", "url", "expected"),
    [
        ({}, "https://api.example", None),
        ({"HTTPS_PROXY": PROXY}, "https://api.example", PROXY),
        ({"HTTPS_PROXY": PROXY}, "http://api.example", None),
        ({"HTTP_PROXY": PROXY}, "http://api.example", PROXY),
        ({"https_proxy": PROXY, "HTTPS_PROXY": "http://other"}, "https://api.example", PROXY),
        ({"ALL_PROXY": PROXY}, "http://api.example", PROXY),
        ({"HTTPS_PROXY": "proxy:3128"}, "https://api.example", PROXY),
        ({"HTTP_PROXY": PROXY, "REQUEST_METHOD": "GET"}, "http://api.example", None),
        ({"http_proxy": PROXY, "REQUEST_METHOD": "GET"}, "http://api.example", PROXY),
        ({"HTTPS_PROXY": "", "https_proxy": ""}, "https://api.example", None),
    ],
)
def test_the_proxy_is_the_one_the_environment_names(
    environment: dict[str, str], url: str, expected: str | None
) -> None:
    assert settings_from(environment).proxy_for(url) == expected


@pytest.mark.parametrize(
    ("excluded", "url", "bypassed"),
    [
        ("example", "http://example", True),
        ("example", "http://api.example", True),
        (".example", "http://api.example", True),
        ("*.example", "http://api.example", True),
        ("ample", "http://example", False),
        ("EXAMPLE", "http://example", True),
        ("a,  example ,b", "http://example", True),
        ("*", "http://anything", True),
        ("example:8080", "http://example:8080", True),
        ("example:8080", "http://example", False),
        ("example:80", "http://example", True),
        ("127.0.0.1", "http://127.0.0.1:1234", True),
        ("10.0.0.0/8", "http://10.1.2.3", True),
        ("10.0.0.0/8", "http://11.1.2.3", False),
        ("10.0.0.0/8", "http://ten.example", False),
        ("::1", "http://[::1]:8080", True),
        ("[::1]:8080", "http://[::1]:8080", True),
        ("", "http://example", False),
    ],
)
def test_no_proxy_excludes_hosts(excluded: str, url: str, bypassed: bool) -> None:
    settings = settings_from({"HTTP_PROXY": PROXY, "NO_PROXY": excluded})
    assert (settings.proxy_for(url) is None) == bypassed


def test_a_bundle_for_requests_wins_over_the_certificates_of_openssl() -> None:
    both = settings_from({"REQUESTS_CA_BUNDLE": "a", "SSL_CERT_FILE": "b", "SSL_CERT_DIR": "c"})
    assert (both.ca_file, both.ca_directory) == ("a", None)
    own = settings_from({"SSL_CERT_FILE": "b", "SSL_CERT_DIR": "c"})
    assert (own.ca_file, own.ca_directory) == ("b", "c")


def test_certificates_that_cannot_be_read_are_the_users_to_mend() -> None:
    with pytest.raises(UsageError, match=r"/nowhere/ca\.pem.*SSL_CERT_FILE"):
        tls_context("/nowhere/ca.pem", None)


def test_a_proxys_password_is_sent_and_never_shown() -> None:
    settings = TransportSettings(http_proxy="http://user:pa%40ss@proxy:3128")
    assert "pa%40ss" not in repr(settings)
    assert proxy_headers("http://user:pa%40ss@proxy") == {
        "Proxy-Authorization": "Basic dXNlcjpwYUBzcw=="
    }
    assert proxy_headers("http://proxy") == {}
