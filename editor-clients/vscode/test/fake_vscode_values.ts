/** Fake VS Code's values: places, names, events and enumerations, as the editor has them. */

type Listener<T> = (value: T) => void;

export class Disposable {
  readonly #run: () => void;
  constructor(run: () => void) {
    this.#run = run;
  }
  static from(...all: { dispose(): void }[]): Disposable {
    return new Disposable(() => all.forEach((one) => void one.dispose()));
  }
  dispose(): void {
    this.#run();
  }
}

export class EventEmitter<T> {
  readonly #listeners = new Set<Listener<T>>();
  event = (listener: Listener<T>): Disposable => {
    this.#listeners.add(listener);
    return new Disposable(() => this.#listeners.delete(listener));
  };
  fire(value: T): void {
    for (const listener of this.#listeners) listener(value);
  }
  dispose(): void {
    this.#listeners.clear();
  }
}

type UriParts = { scheme: string; authority: string; path: string; query: string };

export class Uri {
  readonly scheme: string;
  readonly authority: string;
  readonly path: string;
  readonly query: string;
  constructor({ scheme, authority, path, query }: UriParts) {
    this.scheme = scheme;
    this.authority = authority;
    this.path = path;
    this.query = query;
  }
  static parse(text: string): Uri {
    const [, scheme = '', authority = '', path = '', query = ''] =
      /^([\w+.-]+):(?:\/\/([^/]*))?([^?]*)(?:\?(.*))?$/.exec(text) ?? [];
    return new Uri({ scheme, authority, path, query });
  }
  static file(path: string): Uri {
    return new Uri({ scheme: 'file', authority: '', path, query: '' });
  }
  static joinPath(base: Uri, ...more: string[]): Uri {
    return base.with({ path: [base.path, ...more].join('/') });
  }
  get fsPath(): string {
    return this.path;
  }
  with(changes: Partial<UriParts>): Uri {
    const { scheme, authority, path, query } = this;
    return new Uri({ scheme, authority, path, query, ...changes });
  }
  toString(): string {
    return `${this.scheme}://${this.authority}${this.path}${this.query ? `?${this.query}` : ''}`;
  }
}

export class Position {
  readonly line: number;
  readonly character: number;
  constructor(line: number, character: number) {
    this.line = line;
    this.character = character;
  }
}

export class Range {
  readonly start: Position;
  readonly end: Position;
  constructor(...at: [Position, Position] | [number, number, number, number]) {
    this.start = at.length === 2 ? at[0] : new Position(at[0], at[1]);
    this.end = at.length === 2 ? at[1] : new Position(at[2], at[3]);
  }
  get isEmpty(): boolean {
    return this.start.line === this.end.line && this.start.character === this.end.character;
  }
}
export class Selection extends Range {
  get active(): Position {
    return this.end;
  }
}

export class ThemeIcon {
  readonly id: string;
  constructor(id: string) {
    this.id = id;
  }
}

export class FileSystemError extends Error {
  static FileNotFound(uri: Uri): FileSystemError {
    return new FileSystemError(`not found: ${uri}`);
  }
}
export const EndOfLine = { LF: 1, CRLF: 2 };
export const FileType = { File: 1, Directory: 2 };
export const FileChangeType = { Changed: 1, Created: 2 };
export const QuickPickItemKind = { Separator: -1, Default: 0 };
export const ConfigurationTarget = { Global: 1, Workspace: 2 };
