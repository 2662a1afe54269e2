import { failures, LineError } from "./line-error.js";
import { Subscription } from "./subscription.js";

/** The silence after which the client checks the connection, and the time that a reply may take. */
const silenceMilliseconds = 20_000;
const replyMilliseconds = 10_000;
/** A connection that ends sooner counts as a failed attempt: an overloaded server closes at once. */
const stableMilliseconds = 5_000;
/** The bounds on the pause between two attempts to connect. */
const [pauseMin, pauseMax] = [250, 10_000];
/** The pause before a subscription is tried again, and the errors for which it is. */
const retryMilliseconds = 2_000;
const passing = ["UNAVAILABLE", "OVERLOADED", "RATE_LIMITED"];
/** The errors of the first requests that another attempt would not change. */
const final = ["UNAUTHENTICATED", "PERMISSION_DENIED", "NOT_FOUND"];

/**
 * A connection that speaks the line protocol over a WebSocket, and connects again when it breaks.
 *
 * Events: `state` (it connected or broke), `identity` (another user, or none), `refused` (the server does
 * not accept the first requests any longer; `detail` is its error).
 */
export class Line extends EventTarget {
  /** @type {"connecting" | "online" | "offline"} */
  state = "connecting";
  /** @type {any} the user of the connection as the server described it, or null */
  identity = null;
  /** @type {WebSocket | null} */
  #socket = null;
  /** @type {Pending[]} the requests that wait for a connection */
  #waiting = [];
  /** @type {Pending[]} the requests that wait for their replies, in the order in which they were sent */
  #sent = [];
  /** @type {Set<Subscription>} */
  #subscriptions = new Set();
  /** @type {Map<number, Subscription>} by the numbers that the present connection gave them */
  #numbers = new Map();
  /** The attempts to connect since the last stable connection. */
  #attempts = 0;
  /** @type {Timer} the next attempt, or the next check of the connection */
  #timer;
  /** @type {AbortController | undefined} ends all listening when the line is closed */
  #life;
  /** The time at which the connection was ready. */
  #begunAt = Infinity;
  #greeting;

  /** @param {() => any[][]} greeting the first requests of each connection, which log in */
  constructor(greeting) {
    super();
    this.#greeting = greeting;
  }

  /** Connects, and connects again whenever the connection breaks, until `close`. */
  open() {
    if (this.#life) return;
    this.#life = new AbortController();
    const { signal } = this.#life;
    addEventListener("online", this.#hasten, { signal });
    addEventListener("offline", this.#check, { signal });
    document.addEventListener("visibilitychange", this.#hasten, { signal });
    this.#connect();
  }

  close() {
    this.#life?.abort();
    this.#life = undefined;
    this.#socket?.close();
    this.#disconnected();
  }

  /**
   * Sends a request that changes nothing. It waits for a connection, and is repeated if that breaks.
   * @param {string} verb @param {...any} parts
   */
  read(verb, ...parts) {
    return this.#request(verb, parts, true);
  }

  /**
   * Sends a request that changes something, at most once. It waits for the first connection of the page
   * only. It fails with OFFLINE without a connection, and with LOST if that breaks before the reply.
   * @param {string} verb @param {...any} parts
   */
  async write(verb, ...parts) {
    if (this.state === "offline") throw failures.offline();
    return this.#request(verb, parts, false);
  }

  /** Sends a request whose reply is the new user, such as LOGIN. @param {...any} parts */
  async logIn(verb, ...parts) {
    this.#identify(await this.write(verb, ...parts));
    return this.identity;
  }

  /** Ends the session. Without a connection the user is forgotten here, and the token stays valid. */
  async logOut() {
    await this.write("LOGOUT").catch((error) => {
      if (!["OFFLINE", "LOST", "UNAUTHENTICATED"].includes(error.code)) throw error;
    });
    this.#identify(null);
  }

  /**
   * Subscribes with WATCH or LISTEN, and stays subscribed over reconnections.
   * @param {any[]} request the verb and its arguments; the options, if any, are the last
   * @param {Subscriber} subscriber
   */
  subscribe(request, subscriber) {
    const subscription = new Subscription(request, subscriber, () => this.#unsubscribe(subscription));
    this.#subscriptions.add(subscription);
    if (this.state === "online") this.#begin(subscription);
    return subscription;
  }

  /** Asks the server again for the user: the name may have changed, or the session has ended. */
  async confirm() {
    const identity = await this.read("WHOAMI").catch(() => this.identity);
    if (!identity && this.identity) this.#refuse(new LineError("UNAUTHENTICATED", "The session ended"));
    this.#identify(identity && { ...this.identity, ...identity });
  }

  #connect() {
    clearTimeout(this.#timer);
    const socket = new WebSocket(location.origin.replace(/^http/, "ws") + "/line");
    this.#socket = socket;
    this.#timer = setTimeout(() => this.#drop(socket), replyMilliseconds);
    socket.onopen = () => this.#greet(socket);
    socket.onmessage = ({ data }) => {
      if (socket === this.#socket) this.#receive(data);
    };
    socket.onclose = () => this.#drop(socket);
  }

  async #greet(socket) {
    this.#keepAlive();
    let identity = null;
    try {
      const replies = this.#greeting().map(([verb, ...parts]) => this.#ask(verb, parts));
      identity = (await Promise.all(replies))[0] ?? null;
    } catch (error) {
      // Any other refusal may pass, so the token is kept for the next attempt.
      if (!final.includes(error.code)) return this.#drop(socket);
      this.#refuse(error);
    }
    if (socket !== this.#socket) return;
    this.#begunAt = performance.now();
    this.#identify(identity);
    for (const subscription of this.#subscriptions) this.#begin(subscription);
    for (const pending of this.#waiting.splice(0)) this.#transmit(pending);
    this.#become("online");
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
    this.#timer = setTimeout(() => this.#connect(), (bound * (1 + Math.random())) / 2);
  }

  #disconnected() {
    clearTimeout(this.#timer);
    this.#socket = null;
    this.#begunAt = Infinity;
    this.#numbers.clear();
    for (const subscription of this.#subscriptions) subscription.interrupt();
    const [sent, waiting] = [this.#sent.splice(0), this.#waiting];
    this.#waiting = [...sent, ...waiting].filter(({ isRepeatable }) => isRepeatable);
    this.#become("offline");
    for (const { isRepeatable, reject } of sent) if (!isRepeatable) reject(failures.lost());
    for (const { isRepeatable, reject } of waiting) if (!isRepeatable) reject(failures.offline());
  }

  /** Checks the connection after a silence: a broken cable sends nothing. */
  #keepAlive() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.#check, silenceMilliseconds);
  }

  /** Drops the connection if the server does not answer. */
  #check = () => {
    const socket = this.#socket;
    if (socket?.readyState !== WebSocket.OPEN) return;
    this.#ask("PING").catch(() => {});
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#drop(socket), replyMilliseconds);
  };

  /** Connects at once if the reader looks at the page again or the network is back. */
  #hasten = () => {
    if (document.hidden) return;
    if (this.#socket) return this.#check();
    this.#attempts = 0;
    this.#connect();
  };

  /** Sends a request when there is a connection. @returns {Promise<any>} */
  #request(verb, parts, isRepeatable) {
    return new Promise((resolve, reject) => {
      const pending = { text: encode(verb, parts), isRepeatable, resolve, reject };
      if (this.state === "online") this.#transmit(pending);
      else this.#waiting.push(pending);
    });
  }

  /** Sends a request on the present connection alone. @returns {Promise<any>} */
  #ask(verb, parts = []) {
    return new Promise((resolve, reject) => {
      this.#transmit({ text: encode(verb, parts), isRepeatable: false, resolve, reject });
    });
  }

  #transmit(pending) {
    this.#sent.push(pending);
    this.#socket?.send(pending.text);
  }

  #receive(line) {
    this.#keepAlive();
    const rest = line.slice(1);
    if (line[0] === ">") return this.#notify(JSON.parse(rest));
    const pending = this.#sent.shift();
    if (!pending) return;
    if (line[0] === "+") return pending.resolve(JSON.parse(rest));
    const error = LineError.parse(rest);
    pending.reject(error);
    // The session of this connection was ended elsewhere.
    if (error.code === "UNAUTHENTICATED" && this.identity) this.confirm();
  }

  #begin(subscription) {
    const [verb, ...parts] = subscription.nextRequest();
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
      setTimeout(() => {
        // A new connection has begun it itself.
        if (socket === this.#socket && !subscription.isClosed) this.#begin(subscription);
      }, retryMilliseconds);
    };
    this.#transmit({ text: encode(verb, parts), isRepeatable: false, resolve, reject });
  }

  #notify(event) {
    const subscription = this.#numbers.get(event.sub);
    if (event.event !== "cancel") return subscription?.receive(event);
    this.#numbers.delete(event.sub);
    const error = new LineError(event.code, "The server ended the live view of this.");
    if (subscription) this.#end(subscription, error);
  }

  #end(subscription, error) {
    this.#subscriptions.delete(subscription);
    subscription.fail(error);
  }

  #unsubscribe(subscription) {
    this.#subscriptions.delete(subscription);
    for (const [number, other] of this.#numbers) if (other === subscription) this.#unlisten(number);
  }

  #unlisten(number) {
    this.#numbers.delete(number);
    this.#ask("UNLISTEN", [number]).catch(() => {});
  }

  #become(state) {
    const isNew = this.state !== state;
    this.state = state;
    if (isNew) this.dispatchEvent(new Event("state"));
  }

  #identify(identity) {
    const before = JSON.stringify(this.identity);
    this.identity = identity;
    if (JSON.stringify(identity) !== before) this.dispatchEvent(new Event("identity"));
  }

  #refuse(error) {
    this.dispatchEvent(new CustomEvent("refused", { detail: error }));
  }
}

/** Returns the line of a request. JSON has no line break, so a text cannot become two requests. */
function encode(verb, parts) {
  return [verb, ...parts.map((part) => JSON.stringify(part))].join(" ");
}
