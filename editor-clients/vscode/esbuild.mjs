// Bundles the extension and its page into `dist/`.
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { build } from 'esbuild';

const shared = {
  bundle: true,
  minify: true,
  sourcemap: false,
  legalComments: 'none',
  logLevel: 'warning',
  metafile: true,
};
const codicons = 'node_modules/@vscode/codicons/dist';

await rm('dist', { recursive: true, force: true });
await mkdir('dist/webview', { recursive: true });
const [extension, page] = await Promise.all([
  build({
    ...shared,
    entryPoints: ['src/extension.ts'],
    outfile: 'dist/extension.cjs',
    platform: 'node',
    target: 'node20',
    format: 'cjs',
    external: ['vscode'],
  }),
  build({
    ...shared,
    entryPoints: ['src/webview/main.ts'],
    outfile: 'dist/webview/main.js',
    platform: 'browser',
    target: 'es2022',
    format: 'iife',
  }),
  copyFile(`${codicons}/codicon.css`, 'dist/webview/codicon.css'),
  copyFile(`${codicons}/codicon.ttf`, 'dist/webview/codicon.ttf'),
]);
await writeFile('dist/LICENSES.txt', await licences([extension, page]));

/** The licences of what the bundles hold, and of the icons, word by word. */
async function licences(bundles) {
  const inputs = bundles.flatMap(({ metafile }) => Object.keys(metafile.inputs));
  const folders = inputs.flatMap((input) => /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(input)?.[0] ?? []);
  const texts = [...new Set([...folders, 'node_modules/@vscode/codicons'])].sort().map(async (folder) => {
    const { name, version } = JSON.parse(await readFile(`${folder}/package.json`, 'utf8'));
    const files = (await readdir(folder)).filter((file) => /^licen[cs]e/i.test(file));
    if (files.length === 0) throw new Error(`${name} has no licence`);
    const text = await Promise.all(files.sort().map((file) => readFile(`${folder}/${file}`, 'utf8')));
    return `${name} ${version}\n\n${text.join('\n').trim()}\n`;
  });
  return (await Promise.all(texts)).join(`\n${'-'.repeat(80)}\n\n`);
}
