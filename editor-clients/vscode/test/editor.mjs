/** Editor: in tests `vscode` is the fake one. */

import { registerHooks } from 'node:module';

const FAKE = new URL('./fake_vscode.ts', import.meta.url).href;

registerHooks({
  resolve: (specifier, context, next) =>
    specifier === 'vscode' ? { url: FAKE, shortCircuit: true } : next(specifier, context),
});
