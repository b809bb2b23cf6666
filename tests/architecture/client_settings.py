"""Client settings: what the VS Code extension offers, made from the server's models and the page of the contract.

`python -m tests.architecture.client_settings` writes them into the extension's manifest.

Rules: types, defaults and bounds come from the models, descriptions from `docs/protocol.md`; what raises rights has
`scope: machine`, so that no workspace can set it; what a client says by itself is no setting.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from dsh_lsp.compose import Settings
from dsh_lsp.settings import rights_of

ROOT = Path(__file__).parents[2]
MANIFEST = ROOT / "editor-clients" / "vscode" / "package.json"
PAGE = ROOT / "docs" / "protocol.md"

SAID_BY_THE_CLIENT = {"eventToken", "workspaceTrusted"}
OF_THE_CLIENT = {
    "dsh.client.server": {
        "type": "array",
        "items": {"type": "string"},
        "default": [],
        "scope": "machine",
        "markdownDescription": "The command line that starts the server, for example "
        '`["/path/to/.venv/bin/dsh-lsp", "serve"]`. Empty: the extension\'s own install, the selected interpreter, '
        "the search path.",
    }
}


def properties() -> dict[str, dict[str, Any]]:
    """The settings as `contributes.configuration` has them."""
    schema = Settings.model_json_schema(by_alias=True)
    descriptions = dict(re.findall(r"^\| `([a-zA-Z.]+)`(?: †)? \| [^|]* \| (.*) \|$", PAGE.read_text(), re.MULTILINE))
    rights = rights_of(Settings)
    made = {
        f"dsh.{key}": {
            **_kind(field),
            "scope": "machine" if key in rights else "window",
            "markdownDescription": _sentence(descriptions[key]),
        }
        for key, field in _leaves(schema, schema)
        if key not in SAID_BY_THE_CLIENT
    }
    return {**OF_THE_CLIENT, **made}


def _leaves(schema: dict[str, Any], node: dict[str, Any], prefix: str = ""):
    for key, field in node["properties"].items():
        inner = _resolved(schema, field)
        if inner.get("type") == "object" and "properties" in inner:
            yield from _leaves(schema, inner, f"{prefix}{key}.")
        else:
            yield prefix + key, _inlined(schema, field)


def _resolved(schema: dict[str, Any], field: dict[str, Any]) -> dict[str, Any]:
    name = field.get("$ref", "").removeprefix("#/$defs/")
    return schema["$defs"][name] if name else field


def _inlined(schema: dict[str, Any], node: Any) -> Any:
    """A schema without references and titles, which the editor does not follow and shows."""
    if isinstance(node, list):
        return [_inlined(schema, item) for item in node]
    if not isinstance(node, dict):
        return node
    flat = {**_resolved(schema, node), **{key: value for key, value in node.items() if key != "$ref"}}
    return {key: _inlined(schema, value) for key, value in flat.items() if key not in ("title", "description")}


def _kind(field: dict[str, Any]) -> dict[str, Any]:
    """An optional value is a type or null; an optional choice has null among its choices."""
    default = {"default": field.get("default", [] if field.get("type") == "array" else None)}
    if "anyOf" not in field:
        return {key: value for key, value in field.items() if key != "default"} | default
    [some] = [option for option in field["anyOf"] if option.get("type") != "null"]
    kind = some | {"type": [some["type"], "null"]}
    return (kind | {"enum": [*kind["enum"], None]} if "enum" in kind else kind) | default


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:] + ("" if words.endswith(".") else ".")


def main() -> None:
    """Write the settings into the manifest."""
    manifest = json.loads(MANIFEST.read_text())
    manifest["contributes"]["configuration"][0]["properties"] = properties()
    MANIFEST.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
