"""Mirrors: what is written twice: the page of the settings, and the VS Code extension's settings and version.

`python -m tests.architecture.mirrors` writes all of it from the code.

Rules: types, defaults, bounds and descriptions come from the models; what raises rights is marked on the page and has
`scope: machine` in the manifest, so that no workspace can set it; a workspace that is not trusted can set nothing;
what a client says by itself is no setting there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dsh_lsp import __version__
from dsh_lsp.session_settings import Settings
from dsh_lsp.settings import rights_of

ROOT = Path(__file__).parents[2]
MANIFEST = ROOT / "editor-clients" / "vscode" / "package.json"
LOCK = MANIFEST.with_name("package-lock.json")
PAGE = ROOT / "docs" / "settings.md"
BEGIN, END = "<!-- made from the models: begin -->\n", "<!-- made from the models: end -->\n"

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
OF_THE_MODELS_ALONE = ("title", "description", "strictest")  # an editor knows none of them, or shows them


def properties() -> dict[str, dict[str, Any]]:
    """The settings as `contributes.configuration` has them."""
    rights = rights_of(Settings)
    made = {
        f"dsh.{key}": {
            **_kind(_plain(field)),
            "scope": "machine" if key in rights else "window",
            "markdownDescription": field["description"],
        }
        for key, field in leaves()
        if key not in SAID_BY_THE_CLIENT
    }
    return {**OF_THE_CLIENT, **made}


def page() -> str:
    """The page, with its tables made anew."""
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}{_tables()}{END}{after}"


def _tables() -> str:
    """A table for each section; what stands in none comes first."""
    sections: dict[str, list[str]] = {"": []}
    rights = rights_of(Settings)
    for key, field in leaves():
        section = key.rpartition(".")[0]
        mark = " †" if key in rights else ""
        meaning = field["description"].replace("|", "\\|")
        row = f"| `{key}`{mark} | {_values(_kind(_plain(field)))} | {_default(field)} | {meaning} |\n"
        sections.setdefault(section, []).append(row)
    head = "| key | value | default | meaning |\n|---|---|---|---|\n"
    return "\n".join((f"### `{name}`\n\n" if name else "") + head + "".join(rows) for name, rows in sections.items())


def _values(kind: dict[str, Any]) -> str:
    """What may stand there, in words."""
    if "enum" in kind:
        return ", ".join(f"`{value}`" for value in kind["enum"] if value is not None)
    names = [name for name in ([kind["type"]] if isinstance(kind["type"], str) else kind["type"]) if name != "null"]
    words = {"string": "text", "integer": "whole number", "boolean": "`true`, `false`", "array": "list"}
    bounds = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    limits = [f"{sign} {kind[bound]:g}" for bound, sign in bounds.items() if bound in kind]
    return ", ".join([" or ".join(words.get(name, name) for name in names), *limits])


def _default(field: dict[str, Any]) -> str:
    value = field.get("default", [] if field.get("type") == "array" else None)
    return "" if value is None else f"`{json.dumps(value).removesuffix('.0')}`"


def leaves() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each key with its field, references followed."""
    schema = Settings.model_json_schema(by_alias=True)

    def below(node: dict[str, Any], prefix: str) -> Iterator[tuple[str, dict[str, Any]]]:
        for key, field in node["properties"].items():
            inner = _resolved(schema, field)
            if inner.get("type") == "object" and "properties" in inner:
                yield from below(inner, f"{prefix}{key}.")
            else:
                yield prefix + key, _inlined(schema, field)

    yield from below(schema, "")


def _resolved(schema: dict[str, Any], field: dict[str, Any]) -> dict[str, Any]:
    name = field.get("$ref", "").removeprefix("#/$defs/")
    return schema["$defs"][name] if name else field


def _inlined(schema: dict[str, Any], node: Any) -> Any:
    """A schema without references, which the editor does not follow."""
    if isinstance(node, list):
        return [_inlined(schema, item) for item in node]
    if not isinstance(node, dict):
        return node
    flat = {**_resolved(schema, node), **{key: value for key, value in node.items() if key != "$ref"}}
    return {key: _inlined(schema, value) for key, value in flat.items()}


def _plain(node: Any) -> Any:
    """A schema without what an editor shows or does not know; keys of objects stay."""
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: {name: _plain(item) for name, item in value.items()} if key == "properties" else _plain(value)
        for key, value in node.items()
        if key not in OF_THE_MODELS_ALONE
    }


def _kind(field: dict[str, Any]) -> dict[str, Any]:
    """What it may be: several types, or one and null, are a list; an optional choice has null among its own."""
    default = {"default": field.get("default", [] if field.get("type") == "array" else None)}
    if "anyOf" not in field:
        return {key: value for key, value in field.items() if key != "default"} | default
    some = [option for option in field["anyOf"] if option.get("type") != "null"]
    kind = some[0] | {"type": [*(option["type"] for option in some), "null"]}
    return (kind | {"enum": [*kind["enum"], None]} if "enum" in kind else kind) | default


def main() -> None:
    """Write the page, the manifest and the version in its lock file."""
    PAGE.write_text(page())
    manifest, lock = json.loads(MANIFEST.read_text()), json.loads(LOCK.read_text())
    manifest["contributes"]["configuration"][0]["properties"] = properties()
    manifest["capabilities"]["untrustedWorkspaces"]["restrictedConfigurations"] = sorted(properties())
    manifest["version"] = lock["version"] = lock["packages"][""]["version"] = __version__
    for path, data in ((MANIFEST, manifest), (LOCK, lock)):
        path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
