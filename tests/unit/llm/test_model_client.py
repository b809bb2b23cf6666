from __future__ import annotations

import ssl
import subprocess
import sys

import httpx
import pytest

from dsh_lsp.errors import LlmError
from dsh_lsp.llm.endpoint import EndpointSettings
from dsh_lsp.llm.http_library import nobody_trusted
from dsh_lsp.llm.model_client import ModelClient, transport_failure


def kinds_of(base: type[httpx.HTTPError]) -> list[type[httpx.HTTPError]]:
    found = [base]
    for kind in base.__subclasses__():
        found += kinds_of(kind)
    return found


@pytest.mark.parametrize("kind", kinds_of(httpx.HTTPError), ids=lambda kind: kind.__name__)
def test_every_error_of_the_http_client_has_a_translation(kind: type[httpx.HTTPError]) -> None:
    error = kind.__new__(kind)
    Exception.__init__(error, "why")
    failure = transport_failure(error, host="example.test")
    assert failure.code in {"TRANSPORT", "TIMEOUT", "MALFORMED_RESPONSE"}
    assert "example.test" in failure.message


@pytest.mark.parametrize(
    ("environment", "code", "words"),
    [
        ({"ALL_PROXY": "socks5://me:s3cret-77@127.0.0.1:9"}, "BAD_SETTING", "ALL_PROXY is a SOCKS proxy"),
        ({"https_proxy": "socks://me:s3cret-77@127.0.0.1:9"}, "BAD_SETTING", "in https_proxy cannot be used"),
        ({"HTTP_PROXY": "http://me:s3cret-77:@x:y"}, "BAD_SETTING", "in HTTP_PROXY cannot be used"),
        ({"NO_PROXY": "localhost,fe80::/10"}, "BAD_SETTING", "in NO_PROXY cannot be used"),
        ({"NO_PROXY": "[::1]"}, "BAD_SETTING", "in NO_PROXY cannot be used"),
        ({"HTTP_PROXY": "http://me:s3cret-77@127.0.0.1:99999"}, "TRANSPORT", "cannot connect to 127.0.0.1:9"),
    ],
)
async def test_proxies_that_cannot_be_used_are_a_failure_that_names_their_variable_and_not_what_it_holds(
    environment: dict[str, str], code: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    client = ModelClient(EndpointSettings(base_url="http://127.0.0.1:9"))
    with pytest.raises(LlmError) as refused:
        await client.get("/models", {}, key=None, timeout_s=9)
    await client.aclose()
    assert refused.value.code == code
    assert words in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_certificates_that_cannot_be_read_are_a_failure_that_names_their_variable() -> None:
    code = """
import anyio
from dsh_lsp.errors import LlmError
from dsh_lsp.llm.endpoint import EndpointSettings
from dsh_lsp.llm.model_client import ModelClient
try:
    client = ModelClient(EndpointSettings(base_url="https://127.0.0.1:9"))
    anyio.run(lambda: client.get("/models", {}, key=None, timeout_s=9))
except LlmError as error:
    print(error.failure.code, error)
"""
    environ = {"SSL_CERT_FILE": "/nonexistent/certificates.pem"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True, env=environ)
    assert done.stdout.startswith("BAD_SETTING 127.0.0.1:9 cannot be asked: the certificates that SSL_CERT_FILE")


@pytest.mark.parametrize(
    "url", ["api.deepseek.com", "ftp://x", "http://", "http://me:pw@x", "http://x:99999", "http://x#k"]
)
def test_a_base_url_that_cannot_work_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"base_?[uU]rl"):
        EndpointSettings(base_url=url)


def test_settings_are_read_in_camel_case() -> None:
    read = EndpointSettings.model_validate({"baseUrl": "http://x:1/v1/", "idleTimeoutS": 3})
    assert (read.base_url, read.idle_timeout_s, read.host) == ("http://x:1/v1", 3.0, "x:1")


def test_a_query_of_the_base_url_goes_with_every_path() -> None:
    settings = EndpointSettings(base_url="https://x.openai.azure.com/openai/deployments/d/?api-version=1")
    assert settings.url_of("/models") == "https://x.openai.azure.com/openai/deployments/d/models?api-version=1"


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("", ()),
        ("api-version=2024-10-21-preview", ()),
        ("key=AIza0123456789", ("AIza0123456789",)),
        ("api-version=1&subscription-key=a%2Bb0123456&x", ("a%2Bb0123456", "a+b0123456")),
        (
            "Access%5FToken=t0123456789&sig=s0123456789&code=c0123456789",
            ("t0123456789", "s0123456789", "c0123456789"),
        ),
    ],
)
def test_a_key_in_the_query_of_the_base_url_is_known_by_its_name(query: str, keys: tuple[str, ...]) -> None:
    assert EndpointSettings(base_url=f"https://x/v1?{query}").secrets == keys


def test_importing_the_adapter_does_not_import_the_http_client() -> None:
    code = "import sys, dsh_lsp.llm.deepseek; sys.exit('httpx' in sys.modules or 'httpx_sse' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_asking_a_server_imports_no_command_line_and_looks_once_for_what_is_not_there() -> None:
    code = """
import sys, anyio
class RecordingFinder:
    def __init__(self): self.names = []
    def find_spec(self, name, path=None, target=None): self.names.append(name)
sys.meta_path.insert(0, finder := RecordingFinder())
from dsh_lsp.errors import LlmError
from dsh_lsp.llm.endpoint import EndpointSettings
from dsh_lsp.llm.model_client import ModelClient
try:
    client = ModelClient(EndpointSettings(base_url="http://127.0.0.1:9"))
    anyio.run(lambda: client.get("/models", {}, key=None, timeout_s=9))
except LlmError as error:
    looked_for = [name for name in finder.names if name in ("rich", "click", "sniffio")]
    print(error.failure.code, "httpx" in sys.modules, looked_for)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "TRANSPORT True ['sniffio', 'sniffio']\n", "anyio looks for it, and we do"


async def test_nobody_is_trusted_where_nobody_shows_a_certificate() -> None:
    context = nobody_trusted()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.get_ca_certs() == []
    assert EndpointSettings(base_url="https://x").is_encrypted
    assert not EndpointSettings(base_url="http://x").is_encrypted
