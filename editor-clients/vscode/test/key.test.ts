/** Key: whose key is stored, and whether the server finds one. */

import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { KeyStore } from '../src/key.ts';
import { user } from './fake_vscode.ts';

const VARIABLES = ['DEEPSEEK_API_KEY', 'ANTHROPIC_API_KEY', 'OPENAI_API_KEY', 'SOME_OTHER_KEY', 'MINE'];
const before = Object.fromEntries(VARIABLES.map((name) => [name, process.env[name]]));

class FakeSecrets {
  readonly stored = new Map<string, string>();
  readonly get = async (slot: string) => this.stored.get(slot);
  readonly store = async (slot: string, value: string) => void this.stored.set(slot, value);
  readonly delete = async (slot: string) => void this.stored.delete(slot);
}

let secrets: FakeSecrets;
let keys: KeyStore;

beforeEach(() => {
  user.begin();
  for (const name of VARIABLES) delete process.env[name];
  secrets = new FakeSecrets();
  keys = new KeyStore(secrets as never);
  user.settings.set('dsh.model.provider', 'deepseek');
});

afterEach(() => {
  for (const name of VARIABLES) {
    if (before[name] === undefined) delete process.env[name];
    else process.env[name] = before[name];
  }
});

test("only the provider's own variable is a key, or the one that the user has named", async () => {
  process.env.SOME_OTHER_KEY = 'x';
  process.env.OPENAI_API_KEY = 'x';
  assert.equal(await keys.has(), false);
  process.env.DEEPSEEK_API_KEY = 'x';
  assert.equal(await keys.has(), true);
  user.settings.set('dsh.model.apiKeyEnv', 'MINE');
  assert.equal(await keys.has(), false);
  process.env.MINE = 'x';
  assert.equal(await keys.has(), true);
});

test('a key that is asked for in the demo is that of the provider that is meant', async () => {
  user.settings.set('dsh.model.provider', 'demo');
  user.types = 'sk-secret';
  assert.equal(await keys.ask('anthropic'), true);
  assert.deepEqual([...secrets.stored], [['key:anthropic', 'sk-secret']]);
  assert.equal(await keys.has(), false);
  user.settings.set('dsh.model.provider', 'anthropic');
  assert.equal(await keys.has(), true);
  assert.deepEqual(await keys.env(), { DSH_API_KEY: 'sk-secret' });
});

test('a variable without a name is none: the key goes by the name that the server is told', async () => {
  user.settings.set('dsh.model.apiKeyEnv', '');
  user.types = 'sk-secret';
  assert.equal(await keys.ask(), true);
  assert.deepEqual([...secrets.stored], [['key:deepseek', 'sk-secret']]);
  assert.deepEqual(await keys.env(), { DSH_API_KEY: 'sk-secret' });
});
