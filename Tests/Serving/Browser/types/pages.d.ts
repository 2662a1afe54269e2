// The types that the pages share, for the check of their types. Browsers never see this file.

type Line = import("/shared/line.js").Line;
type Subscription = import("/shared/subscription.js").Subscription;
type Place = import("/console/tree.js").Place;
type Inspector = import("/console/inspector.js").Inspector;
type Timer = ReturnType<typeof setTimeout> | undefined;
type Attributes = Record<string, any>;
type Reader = { uid: string, username: string, token: string };

/** The element for a name such as "p.hint". */
type ElementNamed<Name extends string> = Name extends `${infer Tag}.${string}` ? ElementNamed<Tag>
  : Name extends keyof HTMLElementTagNameMap ? HTMLElementTagNameMap[Name] : HTMLElement;

/** A request, from its call to its reply. */
interface Pending {
  /** The line. */
  text: string;
  /** Whether it is sent again if the connection breaks before its reply. */
  isRepeatable: boolean;
  resolve(reply: any): void;
  reject(error: any): void;
}

/** An event of a subscription, as the server sends it. */
interface LineEvent {
  event: string;
  key?: string;
  prev?: string | null;
  path?: string;
  data?: any;
  seq: number;
  more?: boolean;
}

/** The receiver of the events of commits. With `isReset` they describe the present state, and all before is void. */
interface Subscriber {
  change(change: { events: LineEvent[]; isReset: boolean; seq: number }): void;
  end?(error: any): void;
}

/** A view. `show` is called each time it is on the screen, the others when it is not any longer, or forgotten. */
interface View {
  title?: any;
  content?: any;
  element?: any;
  show?(rest?: string): void;
  hide?(): void;
  close?(): void;
}

/** The element of an entry of a list, which can show another version of its data. */
interface Item {
  element: HTMLElement;
  update(data: any): void;
  data?: any;
}

/** A step that cannot be undone. */
interface Question {
  title: string;
  text?: string;
  /** The text of the button that carries it out, and that of the one that does not. */
  action: string;
  keep?: string;
}

/** The receiver of a live list. */
interface ListListener {
  /** Called at most once for each frame, with the entries that have left and whether all was read again. */
  change(change: { left: Map<string, any>, isReset: boolean, isOlder?: boolean }): void;
  /** Called with the error that ended the subscription. */
  end(error: any): void;
}

interface ListOptions {
  /** The list, such as `["POSTS", uid]`. */
  request: string[];
  /** The order of two entries with their keys. */
  isBefore(a: [string, any], b: [string, any]): boolean;
  item(key: string, data: any): Item;
  /** Stands for a list without entries. */
  empty(): Element;
  /** Such as "post". */
  noun: string;
  /** The request that watches one entry behind the live window. */
  follow?(key: string): any[];
  /** Called with the first entry after each change. */
  onchange?(first: any): void;
}

interface DirectoryOptions {
  noun: string;
  heads: string[];
  /** Reads a page; `after` is the cursor of the page before. */
  read(after: any): Promise<{ entries: any[]; after?: any; note: string }>;
  describe(entry: any): { key: any; name: string; note?: string; cells: any[]; calm?: number };
  detail(key: any): Promise<{ entry: any; title: string; parts: any[]; state?: string }>;
}

/** A child as KEYS describes it: a branch has `children`, a leaf a `value`, which is cut off if it has `bytes`. */
interface Child {
  key: string;
  children?: number;
  value?: any;
  bytes?: number;
  priority?: string | number;
}

// Parts of the platform that older checkers do not know.
interface Array<T> {
  toReversed(): T[];
  findLast(condition: (value: T) => unknown): T | undefined;
  findLastIndex(condition: (value: T) => unknown): number;
}
interface Element {
  moveBefore?(child: Element, next: Element | null): void;
  ariaBusy: string | null;
  ariaCurrent: string | null;
}
interface EventTarget {
  addEventListener(type: string, listener: (event: any) => void): void;
}
