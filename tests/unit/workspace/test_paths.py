"""Paths: what is inside is inside whatever it is called, and what gives rights is not written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lsp.errors import ToolError
from dsh_lsp.workspace.paths import Guarded, check_writable, effects_of, resolve, shown


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "in").symlink_to(root / "sub")
    return root


@pytest.mark.parametrize("path", ["a", "./a", "sub/../a", "in/a", "nicht da/ü.py", "a\u2028b"])
def test_what_lies_inside_is_found(root: Path, path: str) -> None:
    real = resolve(root, path)
    assert resolve(root, str(real)) == real
    assert resolve(root, shown(root, real)) == real


@pytest.mark.parametrize("path", ["..", "../a", "/etc/passwd", "out/a", "sub/../../a", "~", "~/a", "in/../../a"])
def test_what_lies_outside_is_refused(root: Path, path: str) -> None:
    with pytest.raises(ToolError) as error:
        resolve(root, path)
    assert error.value.code == "OUTSIDE"


def test_a_folder_whose_name_begins_like_the_root_is_outside(root: Path) -> None:
    with pytest.raises(ToolError):
        resolve(root, f"{root}-other/a")


def test_another_folder_of_the_window_belongs_to_the_workspace_under_its_own_path(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "outside"
    (other / "away").symlink_to(tmp_path)
    guarded = Guarded(folders=lambda: [other])
    real = resolve(root, "../outside/a", guarded=guarded)
    assert shown(root, real) == str(other / "a")
    assert [effect.kind for effect in effects_of(root, str(other / "a"), "edit", guarded)] == ["edit"]
    assert [effect.kind for effect in effects_of(root, str(other / ".envrc"), "edit", guarded)] == ["edit", "rights"]
    with pytest.raises(ToolError) as error:
        resolve(root, str(other / "away" / "a"), guarded=guarded)
    assert error.value.code == "OUTSIDE"


@pytest.mark.parametrize(
    "path",
    [".git/config", "sub/.git/hooks/x", ".vscode/settings.json", ".envrc", "sub/.nvim.lua", "x.code-workspace"],
)
def test_what_gives_rights_is_not_written(root: Path, path: str) -> None:
    with pytest.raises(ToolError) as error:
        check_writable(root, resolve(root, path))
    assert error.value.code == "RIGHTS"


@pytest.mark.parametrize("path", [".github/x.yml", "sub/git/config", "vscode/a", ".gitignore"])
def test_other_files_are_written(root: Path, path: str) -> None:
    check_writable(root, resolve(root, path))


def test_a_path_that_no_system_has_is_refused(root: Path) -> None:
    with pytest.raises(ToolError) as error:
        resolve(root, "a\0b")
    assert error.value.code == "INVALID_PATH"
    with pytest.raises(ToolError):  # no effects would mean that it touches nothing
        effects_of(root, "a\0b", "read")


@pytest.mark.parametrize(
    ("path", "kind", "kinds"),
    [
        ("a", "read", ["read"]),
        ("a", "edit", ["edit"]),
        ("out/a", "read", ["read", "outside"]),
        ("../a", "edit", ["edit", "outside"]),
        (".envrc", "read", ["read"]),
        (".envrc", "edit", ["edit", "rights"]),
        ("../.vscode/x", "edit", ["edit", "outside", "rights"]),
    ],
)
def test_the_effects_say_what_needs_a_permission(root: Path, path: str, kind, kinds) -> None:
    assert [effect.kind for effect in effects_of(root, path, kind)] == kinds


def test_what_the_user_allowed_is_touched_and_version_control_never(root: Path) -> None:
    granted = frozenset(effect.grant_key for effect in effects_of(root, "../outside/.envrc", "edit"))
    real = resolve(root, "out/.envrc", granted, kind="edit")
    check_writable(root, real, granted)
    granted = frozenset(effect.grant_key for effect in effects_of(root, ".git/config", "edit"))
    with pytest.raises(ToolError):
        check_writable(root, resolve(root, ".git/config"), granted | {"rights:.git/config"})


def test_what_the_user_allowed_covers_that_path_and_what_was_allowed_of_it(root: Path) -> None:
    one = frozenset(effect.grant_key for effect in effects_of(root, "../outside/.envrc", "edit"))
    for other in ("../outside/a", "../outside", ".."):
        with pytest.raises(ToolError, match="outside"):
            resolve(root, other, one)
    with pytest.raises(ToolError, match="not allowed"):
        check_writable(root, resolve(root, ".envrc"), one)
    read = frozenset(effect.grant_key for effect in effects_of(root, "../outside/a", "read"))
    resolve(root, "../outside/a", read)
    with pytest.raises(ToolError, match="outside"):
        resolve(root, "../outside/a", read, kind="edit")


# -- what a tool that writes a path may do -----------------------------------------------------------------------

WRITES, REVIEWED, OUTSIDE, RIGHTS, NEVER, INVALID = "inside", "inside", "outside", "rights", "never", "invalid"

PATHS = [
    ("a", WRITES),
    ("./a", WRITES),
    ("sub/a", WRITES),
    ("sub//a", WRITES),
    ("sub/./a", WRITES),
    ("sub/../a", WRITES),
    ("new/deep/er/a", WRITES),
    ("in/a", WRITES),
    ("loop/a", WRITES),
    ("a b", WRITES),
    (" a", WRITES),
    ("-rf", WRITES),
    ("a\nb", WRITES),
    ("\N{LATIN SMALL LETTER U WITH DIAERESIS}.py", WRITES),
    ("u\N{COMBINING DIAERESIS}.py", WRITES),
    ("\u202egpj.py", WRITES),
    ("...", WRITES),
    ("..a", WRITES),
    ("$HOME", WRITES),
    ("%2e%2e/a", WRITES),
    ("C:\\a", WRITES),
    ("a" * 200, WRITES),
    (".gitignore", WRITES),
    (".github/workflows/x.yml", WRITES),
    ("git/config", WRITES),
    ("vscode/settings.json", WRITES),
    ("envrc", WRITES),
    ("..", OUTSIDE),
    ("../a", OUTSIDE),
    ("../root-other/a", OUTSIDE),
    ("sub/../../a", OUTSIDE),
    ("in/../../a", OUTSIDE),
    ("out/a", OUTSIDE),
    ("out/../a", OUTSIDE),
    ("file-out", OUTSIDE),
    ("/etc/passwd", OUTSIDE),
    ("/", OUTSIDE),
    ("~", OUTSIDE),
    ("~/a", OUTSIDE),
    ("//etc/passwd", OUTSIDE),
    (".vscode/settings.json", RIGHTS),
    (".VSCode/settings.json", RIGHTS),
    ("sub/.vscode/x/y", RIGHTS),
    (".vs\u200dcode/settings.json", RIGHTS),
    ("settings/settings.json", RIGHTS),  # a link to .vscode
    (".dsh/plugin.py", RIGHTS),
    (".nvim.lua", RIGHTS),
    (".exrc", RIGHTS),
    (".envrc", RIGHTS),
    ("sub/.ENVRC", RIGHTS),
    (".dir-locals.el", RIGHTS),
    ("x.code-workspace", RIGHTS),
    (".helix/config.toml", RIGHTS),
    (".devcontainer.json", RIGHTS),
    ("_vimrc", RIGHTS),
    ("sub/_exrc", RIGHTS),
    (".lvimrc", RIGHTS),
    (".vim/plugin/x.vim", RIGHTS),
    (".dir-locals.eld", RIGHTS),
    (".idea/runConfigurations/x.xml", RIGHTS),
    (".cursor/mcp.json", RIGHTS),
    (".mcp.json", RIGHTS),
    (".mise.toml", RIGHTS),
    (".husky/pre-commit", RIGHTS),
    (".cargo/config.toml", RIGHTS),
    (".pre-commit-config.yaml", RIGHTS),
    ("lefthook-local.json", RIGHTS),
    (".lefthook.toml", RIGHTS),
    ("sub/mise.development.local.toml", RIGHTS),
    (".config/mise/config.toml", RIGHTS),
    (".config/fish/config.fish", RIGHTS),
    (".config/other/a", WRITES),
    ("mise/a.toml", WRITES),
    ("promise.toml", WRITES),
    ("rust-toolchain.toml", RIGHTS),
    (".lazy.lua", RIGHTS),
    (".opencode/plugin/x.ts", RIGHTS),
    ("opencode.json", RIGHTS),
    (".kiro/settings/mcp.json", RIGHTS),
    (".bashrc", RIGHTS),
    (".ssh/config", RIGHTS),
    (".gitconfig", RIGHTS),
    ("lefthook.local", RIGHTS),  # a link called lefthook.yml leads to it
    (".envrc::$DATA", RIGHTS),
    (".vscode::$INDEX_ALLOCATION/settings.json", RIGHTS),
    ("VSCODE~1/settings.json", RIGHTS),
    ("second-name.txt", RIGHTS),  # a hard link
    ("pyproject.toml", WRITES),
    ("Makefile", WRITES),
    ("package.json", WRITES),
    ("a:b", WRITES),
    (".git::$INDEX_ALLOCATION/config", NEVER),
    (".git:x/config", NEVER),
    ("git~2/config", NEVER),
    (".hg/hgrc", NEVER),
    ("notes.txt", NEVER),  # a hard link to .git/config
    ("hook.txt", NEVER),  # one to a hook
    ("log.txt", NEVER),  # one into the store
    ("tools/plugin.py", RIGHTS),  # a loaded plugin
    (".git/config", NEVER),
    (".GIT/hooks/pre-commit", NEVER),
    (".git", NEVER),
    (".g\u200cit/config", NEVER),
    (".git /config", NEVER),
    ("GIT~1/config", NEVER),
    ("sub/.git/config", NEVER),
    ("dotgit/config", NEVER),  # a link to .git
    ("store/session.jsonl", NEVER),
    ("keys.txt", NEVER),
    (".bare/config", NEVER),  # a repository that is kept elsewhere
    (".bare/hooks/pre-commit", NEVER),
    ("mirror.git/HEAD", NEVER),
    ("half/config", WRITES),
    ("half/HEAD", NEVER),  # it would become a repository
    ("half/work/commondir", NEVER),
    ("objects/HEAD", WRITES),
    (".vscode/tasks.json", RIGHTS),  # a link to editor/tasks.json
    ("editor/tasks.json", RIGHTS),
    ("editor/a", WRITES),
    (".nvimrc", RIGHTS),  # a link to editor/vim/rc
    ("editor/vim/rc", RIGHTS),
    ("editor/vim/other", WRITES),
    (".husky/post-merge", RIGHTS),  # a link to tools/hooks
    ("tools/hooks/post-merge", RIGHTS),
    (".git/hooks/pre-push", RIGHTS),  # a link to tools/push
    ("tools/push", RIGHTS),
    ("sub/.vimrc", RIGHTS),  # a link to tools/vimrc
    ("rc", RIGHTS),  # a link to sub/.vimrc
    ("a\0b", INVALID),
    ("n" * 300, INVALID),
    ("sub/" + "n" * 300 + "/a", INVALID),
    ("d/" * 3000, INVALID),
]


@pytest.fixture
def guarded(root: Path) -> Guarded:
    (root / ".vscode").mkdir()
    (root / ".git").mkdir()
    (root / ".git" / "hooks").mkdir()
    (root / "store").mkdir()
    for name, other in (
        ("first-name.txt", "second-name.txt"),
        (".git/config", "notes.txt"),
        (".git/hooks/pre-commit", "hook.txt"),
        ("store/a.jsonl", "log.txt"),
    ):
        (root / name).write_text("x\n")
        (root / other).hardlink_to(root / name)
    for folder in (
        ".bare/objects",
        ".bare/refs",
        "mirror.git/objects",
        "mirror.git/refs",
        "half/objects",
        "half/refs",
    ):
        (root / folder).mkdir(parents=True)
    (root / ".bare" / "HEAD").write_text("ref: refs/heads/main\n")
    for folder in ("editor/vim", "tools/hooks", "half/work"):
        (root / folder).mkdir(parents=True)
    (root / "half" / "work" / "HEAD").write_text("ref: refs/heads/main\n")
    (root / "editor" / "tasks.json").write_text("{}\n")
    (root / ".vscode" / "tasks.json").symlink_to("../editor/tasks.json")
    (root / ".nvimrc").symlink_to("editor/vim/rc")
    (root / ".husky").symlink_to(root / "tools" / "hooks")
    (root / ".git" / "hooks" / "pre-push").symlink_to("../../tools/push")
    (root / "sub" / ".vimrc").symlink_to("../tools/vimrc")
    (root / "lefthook.yml").symlink_to("lefthook.local")
    (root / "rc").symlink_to("in/.vimrc")
    (root / "settings").symlink_to(root / ".vscode")
    (root / "dotgit").symlink_to(".git")
    (root / "loop").symlink_to(".")
    (root / "file-out").symlink_to(root.parent / "outside" / "a")
    return Guarded(never=[root / "store", root / "keys.txt"], rights=lambda: [root / "tools" / "plugin.py"])


def decision(root: Path, path: str, guarded: Guarded) -> str:
    try:
        check_writable(root, resolve(root, path), guarded=guarded, called=path)
    except ToolError as error:
        if error.code != "RIGHTS":
            return {"OUTSIDE": OUTSIDE, "INVALID_PATH": INVALID}[error.code]
        try:
            granted = frozenset(effect.grant_key for effect in effects_of(root, path, "edit", guarded))
            check_writable(root, resolve(root, path), granted, guarded, called=path)
        except ToolError:
            return NEVER
        return RIGHTS
    return WRITES


@pytest.mark.parametrize(("path", "wanted"), PATHS, ids=lambda value: repr(value)[:30])
def test_every_path_has_its_decision_wherever_it_leads(root: Path, guarded: Guarded, path: str, wanted: str) -> None:
    assert decision(root, path, guarded) == wanted
    if wanted == INVALID:
        return
    kinds = {effect.kind for effect in effects_of(root, path, "edit", guarded)}
    assert ("outside" in kinds) == (wanted == OUTSIDE)
    assert "rights" in kinds or wanted != RIGHTS


def test_the_table_of_paths_is_long_enough_to_mean_something() -> None:
    assert len(PATHS) >= 40


@given(st.text(alphabet="ab./~\\ \0\u200d\u202eé\ud800.gitvscode", max_size=30))
def test_any_text_is_a_path_inside_or_outside_or_none(path: str) -> None:
    here = Path("/nonexistent/root")
    try:
        real = resolve(here, path)
    except ToolError:  # any other exception would be a bug
        return
    assert real == here or here in real.parents
    effects_of(here, path, "edit")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with links to all sides, by short names that a fuzzer hits: its parent holds what lies outside."""
    base = tmp_path_factory.mktemp("tree")
    root = base / "r"
    (root / "a" / "b").mkdir(parents=True)
    (base / "o" / "a").mkdir(parents=True)
    links = {
        "r/i": "a",
        "r/o": "../o",
        "r/a/u": "..",
        "r/a/b/o": "../../../o/a",
        "r/l": "l",
        "r/m": "o/i",
        "o/i": "../r",
    }
    for name, target in links.items():
        (base / name).symlink_to(target)
    (root / "a" / "abs").symlink_to(base / "o")
    (root / "file").write_text("")
    return root


@given(
    parts=st.lists(
        st.sampled_from(["a", "b", "i", "o", "u", "l", "m", "abs", "file", "..", ".", "", "x"]), max_size=8
    ),
    absolute=st.sampled_from(["", "root", "parent", "/"]),
)
def test_a_path_through_links_is_judged_by_where_it_leads(tree: Path, parts: list[str], absolute: str) -> None:
    start = {"": "", "root": f"{tree}/", "parent": f"{tree.parent}/", "/": "/"}[absolute]
    path = start + "/".join(parts)
    leads_to = Path(os.path.realpath(tree / path))  # as the system itself goes there
    inside = leads_to == tree or tree in leads_to.parents
    kinds = [effect.kind for effect in effects_of(tree, path, "read")]
    assert ("outside" in kinds) == (not inside)
    if inside:
        assert resolve(tree, path) == leads_to
    else:
        with pytest.raises(ToolError) as error:
            resolve(tree, path)
        assert error.value.code == "OUTSIDE"
    try:  # what the kernel opens is what was judged
        descriptor = os.open(tree / path, os.O_RDONLY)
    except OSError:
        return
    try:
        assert os.path.samestat(os.fstat(descriptor), leads_to.stat())
    finally:
        os.close(descriptor)
