import { Subscription } from "./subscription.js";

/** The silence after which the client checks the connection, and the time that a reply may take. */
const [silenceMilliseconds, replyMilliseconds] = [20_000, 10_000];
/** A connection that ends sooner counts as a failed attempt: an overloaded server closes at once. */
const stableMilliseconds = 5_000;
const [pauseMin, pauseMax] = [250, 10_000]; // The bounds on the pause between two attempts to connect.
/** The pause before a subscription is tried again, and the errors for which it is. */
const retryMilliseconds = 2_000;
const passing = ["UNAVAILABLE", "OVERLOADED", "RATE_LIMITED"];
/** The errors of the first requests that another attempt would not change. */
const final = ["UNAUTHENTICATED", "PERMISSION_DENIED", "NOT_FOUND"];

/** The failure of a request: a sentence for people and a code for programs, of the protocol or one of these two. */
const failure = (code, sentence) => Object.assign(new Error(sentence || code), { code });
const offline = () => failure("OFFLINE", "There is no connection to the server, so this was not sent. Try again.");
const lost = () => failure("LOST", "The connection broke before the reply. This may or may not have been saved.");
const tooLong = () => failure("TOO_LARGE", "This is too long for one request, so it was not sent. Shorten it.");

/** A connection that speaks the line protocol over a WebSocket, and connects again when it breaks. Events: `state`
 * (it connected or broke), `identity` (another user, or none), `refused` (the server does not accept the first
 * requests any longer; `detail` is its error). */
export class Line extends EventTarget {
  /** @type {"connecting" | "online" | "offline"} */ state = "connecting";
  /** @type {any} the user of the connection as the server described it, or null */ identity = null;
  /** @type {WebSocket | null} */ #socket = null;
  /** @type {Pending[]} the requests that wait for a connection */ #waiting = [];
  /** @type {Pending[]} the requests that wait for their replies, in the order of sending */ #sent = [];
  /** @type {Set<Subscription>} */ #subscriptions = new Set();
  /** @type {Map<number, Subscription>} by the numbers that the present connection gave them */ #numbers = new Map();
  /** The attempts to connect since the last stable connection, and the time at which the present one was ready. */
  #attempts = 0;
  #begunAt = Infinity;
  /** @type {Timer} the next attempt, or the next check of the connection */ #timer;
  /** @type {AbortController | undefined} ends all listening when the line is closed */ #life;
  #lineBytesMax = 1 << 20; // The server says the bound on a line of its own in its reply to HELLO.
  #firstRequests;

  /** @param {() => any[][]} firstRequests those of each connection, which log in */
  constructor(firstRequests) {
    super();
    this.#firstRequests = firstRequests;
  }

  open() {
    if (this.#life) return;
    this.#life = new AbortController();
    const { signal } = this.#life;
    addEventListener("online", this.#connectNow, { signal });
    addEventListener("offline", this.#check, { signal });
    document.addEventListener("visibilitychange", this.#connectNow, { signal });
    this.#connect();
  }

  close() {
    this.#life?.abort();
    this.#life = undefined;
    this.#socket?.close();
    this.#disconnected();
  }

  reopen() { this.close(); this.open(); }

  /** Another connection with the same login, which is not open yet. */
  another() { return new Line(this.#firstRequests); }

  /** Sends a request that changes nothing. It waits for a connection, and is repeated if that breaks. */
  read(/** @type {string} */ verb, ...parts) { return reply(this.#request, [verb, ...parts], true); }

  /** Sends a request that changes something, at most once. It waits for the first connection of the page only. It
   * fails with OFFLINE without a connection, and with LOST if that breaks before the reply. */
  async write(/** @type {string} */ verb, ...parts) {
    if (this.state === "offline") throw offline();
    return reply(this.#request, [verb, ...parts]);
  }

  /** Sends a request whose reply is the new user, such as LOGIN. */
  async logIn(/** @type {string} */ verb, ...parts) {
    this.#set("identity", await this.write(verb, ...parts));
    return this.identity;
  }

  /** Asks the server again for the user: the name may have changed, or the session has ended. */
  async confirm() {
    const identity = await this.read("WHOAMI").catch(() => this.identity);
    if (!identity && this.identity) this.#refuse(failure("UNAUTHENTICATED", "The session ended"));
    this.#set("identity", identity && { ...this.identity, ...identity });
  }

  /** Subscribes with WATCH or LISTEN, and stays subscribed over reconnections.
   * @param {any[]} request the verb and its arguments; the options, if any, are the last
   * @param {Subscriber} subscriber */
  subscribe(request, subscriber) {
    const subscription = new Subscription(request, subscriber, () => {
      this.#subscriptions.delete(subscription);
      for (const [number, other] of this.#numbers) if (other === subscription) this.#unlisten(number);
    });
    this.#subscriptions.add(subscription);
    if (this.state === "online") this.#begin(subscription);
    return subscription;
  }

  #connect() {
    const socket = new WebSocket(location.origin.replace(/^http/, "ws") + "/line");
    this.#socket = socket;
    this.#schedule(replyMilliseconds, () => this.#drop(socket));
    socket.onopen = () => this.#greet(socket);
    socket.onmessage = ({ data }) => socket === this.#socket && this.#receive(data);
    socket.onclose = () => this.#drop(socket);
  }

  async #greet(socket) {
    this.#schedule(silenceMilliseconds, this.#check);
    let identity = null;
    try {
      const requests = [["HELLO"], ...this.#firstRequests()];
      const [hello, user = null] = await Promise.all(requests.map((request) => this.#ask(...request)));
      [identity, this.#lineBytesMax] = [user, hello.limits.lineBytes];
    } catch (error) {
      // Any other refusal may pass, so the token is kept for the next attempt.
      if (!final.includes(error.code)) return this.#drop(socket);
      this.#refuse(error);
    }
    if (socket !== this.#socket) return;
    this.#begunAt = performance.now();
    this.#set("identity", identity);
    for (const subscription of this.#subscriptions) this.#begin(subscription);
    for (const pending of this.#waiting.splice(0)) this.#transmit(pending);
    this.#set("state", "online");
  }

  /** Gives a connection up, and arranges the next. */
  #drop(socket) {
    if (socket !== this.#socket) return;
    socket.close();
    if (performance.now() - this.#begunAt > stableMilliseconds) this.#attempts = 0;
    this.#disconnected();
    if (!this.#life) return;
    const bound = Math.min(pauseMax, pauseMin * 2 ** this.#attempts++);
    // Many pages lose the same server at one moment, and must not all come back at one moment.
    this.#schedule((bound * (1 + Math.random())) / 2, () => this.#connect());
  }

  #disconnected() {
    clearTimeout(this.#timer);
    this.#socket = null;
    this.#begunAt = Infinity;
    this.#numbers.clear();
    for (const subscription of this.#subscriptions) subscription.interrupt();
    const [sent, waiting] = [this.#sent.splice(0), this.#waiting];
    this.#waiting = [...sent, ...waiting].filter(({ isRepeatable }) => isRepeatable);
    this.#set("state", "offline");
    for (const { isRepeatable, reject } of sent) if (!isRepeatable) reject(lost());
    for (const { isRepeatable, reject } of waiting) if (!isRepeatable) reject(offline());
  }

  #schedule(milliseconds, step) { clearTimeout(this.#timer); this.#timer = setTimeout(step, milliseconds); }

  /** Drops the connection if the server does not answer: a broken cable sends nothing. The session may have ended. */
  #check = () => {
    const socket = this.#socket;
    if (socket?.readyState !== WebSocket.OPEN) return;
    if (this.identity) this.confirm();
    else this.#ask("PING").catch(() => {});
    this.#schedule(replyMilliseconds, () => this.#drop(socket));
  };

  /** Connects at once if the reader looks at the page again or the network is back. */
  #connectNow = () => {
    if (document.hidden) return;
    if (this.#socket) return this.#check();
    this.#attempts = 0;
    clearTimeout(this.#timer);
    this.#connect();
  };

  /** Sends a request when there is a connection. */
  #request = (pending) => this.state === "online" ? this.#transmit(pending) : this.#waiting.push(pending);

  /** Sends a request on the present connection. */
  #transmit = (pending) => {
    // The server would end the connection, and a read would be sent again on the next.
    if (new TextEncoder().encode(pending.text).length > this.#lineBytesMax) return pending.reject(tooLong());
    this.#sent.push(pending);
    this.#socket?.send(pending.text);
  };

  #ask(...request) { return reply(this.#transmit, request); }

  #receive(line) {
    this.#schedule(silenceMilliseconds, this.#check);
    const [kind, rest] = [line[0], line.slice(1)];
    if (kind === ">") return this.#notify(JSON.parse(rest));
    const pending = this.#sent.shift();
    if (!pending) return;
    if (kind === "+") return pending.resolve(JSON.parse(rest));
    const [code, ...words] = rest.split(" ");
    pending.reject(failure(code, words.join(" ").replace(/^\[([A-Z_]+|\d+ ms)\] /, "")));
    // The session of this connection was ended elsewhere.
    if (code === "UNAUTHENTICATED" && this.identity) this.confirm();
  }

  #begin(subscription) {
    // Not a promise, which would end after the first events have come.
    const resolve = (reply) => {
      this.#numbers.set(reply.sub, subscription);
      if (subscription.isClosed) this.#unlisten(reply.sub);
      else subscription.begin(reply);
    };
    const reject = (error) => {
      if (error.code === "LOST" || subscription.isClosed) return;
      if (!passing.includes(error.code)) return this.#end(subscription, error);
      const socket = this.#socket;
      // A new connection has begun it itself.
      const again = () => socket === this.#socket && !subscription.isClosed && this.#begin(subscription);
      setTimeout(again, retryMilliseconds);
    };
    this.#transmit({ text: encode(subscription.nextRequest()), isRepeatable: false, resolve, reject });
  }

  #notify(event) {
    const subscription = this.#numbers.get(event.sub);
    if (event.event !== "cancel") return subscription?.receive(event);
    this.#numbers.delete(event.sub);
    if (subscription) this.#end(subscription, failure(event.code, "The server ended the live view of this."));
  }

  #end(subscription, error) { this.#subscriptions.delete(subscription); subscription.fail(error); }

  #unlisten(number) { this.#numbers.delete(number); this.#ask("UNLISTEN", number).catch(() => {}); }

  /** Sets `state` or `identity`, and reports another value. */
  #set(name, value) {
    const isNew = JSON.stringify(this[name]) !== JSON.stringify(value);
    this[name] = value;
    if (isNew) this.dispatchEvent(new Event(name));
  }

  #refuse(error) { this.dispatchEvent(new CustomEvent("refused", { detail: error })); }
}

/** Sends a request, and returns its reply. @param {(pending: Pending) => void} send @returns {Promise<any>} */
const reply = (send, request, isRepeatable = false) => new Promise((resolve, reject) =>
  send({ text: encode(request), isRepeatable, resolve, reject }));

/** Returns the line of a request. JSON has no line break, so a text cannot become two requests. */
const encode = ([verb, ...parts]) => [verb, ...parts.map((part) => JSON.stringify(part))].join(" ");
