// Makes the .vsix: the bundle, and the wheel of the server that the extension can install.
//
// The wheel is built by the interpreter that $PYTHON names; `--no-wheel` leaves it out.
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';

const run = (command, ...args) => execFileSync(command, args, { stdio: 'inherit' });
const rest = process.argv.slice(2);

run('node', 'esbuild.mjs');
rmSync('bundled', { recursive: true, force: true });
mkdirSync('bundled');
if (!rest.includes('--no-wheel')) {
  const python = process.env.PYTHON ?? 'python3';
  run(
    python,
    '-m',
    'pip',
    'wheel',
    '--quiet',
    '--disable-pip-version-check',
    '--no-deps',
    '--wheel-dir',
    'bundled',
    '../..',
  );
}
const out = rest.find((argument) => argument.endsWith('.vsix')) ?? 'dsh-lsp.vsix';
run('node_modules/.bin/vsce', 'package', '--no-dependencies', '--allow-missing-repository', '--out', out);
