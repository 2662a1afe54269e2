import { Backoff } from "./backoff.js";
import { LineError } from "./line-error.js";
import { Subscription } from "./subscription.js";

export { LineError };

/** The silence after which the client checks the connection, and the time that the server has for its reply. */
const silenceMilliseconds = 20_000;
const replyMilliseconds = 10_000;
/** A connection that ends sooner counts as a failed attempt: a server that is overloaded closes at once. */
const stableMilliseconds = 5_000;
/** The pause after which a subscription that the server could not begin is tried again, and the codes for that. */
const retryMilliseconds = 2_000;
const passing = ["UNAVAILABLE", "OVERLOADED", "RATE_LIMITED"];

/**
 * A request, from its call to its reply.
 * @typedef {object} Pending
 * @property {string} text the line
 * @property {boolean} isRepeatable whether it is sent again if the connection breaks before its reply
 * @property {(reply: any) => void} resolve
 * @property {(error: LineError) => void} reject
 */

/**
 * A connection that speaks the line protocol over a WebSocket, and connects again when it breaks.
 *
 * Events: `state` (it connected or broke), `identity` (another user, or none), `refused` (the server does not accept
 * the kept token any longer).
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
  #backoff = new Backoff();
  /** @type {ReturnType<typeof setTimeout> | undefined} the next attempt, or the next check of the connection */
  #timer;
  #isOpen = false;
  /** The time at which the connection was ready. */
  #begunAt = Infinity;
  #url;
  #token;

  /** @param {{ url?: string, token?: () => string | null }} options the token is asked for at each connection */
  constructor({ url, token = () => null } = {}) {
    super();
    this.#url = url ?? location.origin.replace(/^http/, "ws") + "/line";
    this.#token = token;
  }

  /** Connects, and connects again whenever the connection breaks, until `close`. */
  open() {
    if (this.#isOpen) return;
    this.#isOpen = true;
    addEventListener("online", this.#hasten);
    addEventListener("offline", this.#check);
    document.addEventListener("visibilitychange", this.#hasten);
    this.#connect();
  }

  close() {
    this.#isOpen = false;
    removeEventListener("online", this.#hasten);
    removeEventListener("offline", this.#check);
    document.removeEventListener("visibilitychange", this.#hasten);
    this.#socket?.close();
    this.#disconnected();
  }

  /**
   * Sends a request that changes nothing. It waits for a connection, and is repeated if the connection breaks.
   * @param {string} verb
   * @param {...any} parts
   * @returns {Promise<any>}
   */
  read(verb, ...parts) {
    return new Promise((resolve, reject) => {
      this.#enqueue({ text: encode(verb, parts), isRepeatable: true, resolve, reject });
    });
  }

  /**
   * Sends a request that changes something, at most once. It waits for the first connection of the page only.
   * @param {string} verb
   * @param {...any} parts
   * @returns {Promise<any>} fails with OFFLINE if there is no connection, and with LOST if it breaks before the reply
   */
  write(verb, ...parts) {
    return new Promise((resolve, reject) => {
      if (this.state === "offline") return reject(LineError.offline());
      this.#enqueue({ text: encode(verb, parts), isRepeatable: false, resolve, reject });
    });
  }

  /**
   * Sends a request whose reply is the new user of the connection, such as LOGIN, SIGNUP or AUTH.
   * @param {string} verb
   * @param {...any} parts
   */
  async logIn(verb, ...parts) {
    const identity = await this.write(verb, ...parts);
    this.#identify(identity);
    return identity;
  }

  /** Ends the session. Without a connection the user is forgotten here, and the token stays valid. */
  async logOut() {
    try {
      await this.write("LOGOUT");
    } catch (error) {
      if (!["OFFLINE", "LOST", "UNAUTHENTICATED"].includes(/** @type {LineError} */ (error).code)) throw error;
    }
    this.#identify(null);
  }

  /**
   * Subscribes with WATCH or LISTEN, and stays subscribed over reconnections.
   * @param {any[]} request the verb and its arguments; the options, if any, are the last
   * @param {import("./subscription.js").Subscriber} subscriber
   * @returns {Subscription}
   */
  subscribe(request, subscriber) {
    const subscription = new Subscription(request, subscriber, () => this.#unsubscribe(subscription));
    this.#subscriptions.add(subscription);
    if (this.state === "online") this.#begin(subscription);
    return subscription;
  }

  // Connections

  #connect() {
    clearTimeout(this.#timer);
    const socket = new WebSocket(this.#url);
    this.#socket = socket;
    this.#timer = setTimeout(() => this.#drop(socket), replyMilliseconds);
    socket.onopen = () => this.#connected(socket);
    socket.onmessage = (message) => {
      if (socket === this.#socket) this.#receive(message.data);
    };
    socket.onclose = () => this.#drop(socket);
  }

  /** @param {WebSocket} socket */
  #connected(socket) {
    this.#keepAlive();
    const token = this.#token();
    if (token === null) return this.#begun(null);
    this.#transmit({
      text: encode("AUTH", [token]), isRepeatable: false,
      resolve: (identity) => this.#begun(identity),
      reject: (error) => {
        // Any other refusal may pass, so the token is kept for the next attempt.
        if (error.code !== "UNAUTHENTICATED" && error.code !== "PERMISSION_DENIED") return this.#drop(socket);
        this.dispatchEvent(new Event("refused"));
        this.#begun(null);
      },
    });
  }

  /** @param {any} identity */
  #begun(identity) {
    this.#begunAt = performance.now();
    this.#identify(identity);
    for (const subscription of this.#subscriptions) this.#begin(subscription);
    for (const pending of this.#waiting.splice(0)) this.#transmit(pending);
    this.#become("online");
  }

  /**
   * Gives a connection up, and arranges the next.
   * @param {WebSocket} socket
   */
  #drop(socket) {
    if (socket !== this.#socket) return;
    socket.close();
    if (performance.now() - this.#begunAt > stableMilliseconds) this.#backoff.reset();
    this.#disconnected();
    if (this.#isOpen) this.#timer = setTimeout(() => this.#connect(), this.#backoff.next());
  }

  #disconnected() {
    clearTimeout(this.#timer);
    this.#socket = null;
    this.#begunAt = Infinity;
    this.#numbers.clear();
    for (const subscription of this.#subscriptions) subscription.interrupt();
    const sent = this.#sent.splice(0);
    const waiting = this.#waiting;
    this.#waiting = [...sent, ...waiting].filter((pending) => pending.isRepeatable);
    this.#become("offline");
    for (const pending of sent) if (!pending.isRepeatable) pending.reject(LineError.lost());
    for (const pending of waiting) if (!pending.isRepeatable) pending.reject(LineError.offline());
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
    this.#transmit({ text: "PING", isRepeatable: false, resolve: () => {}, reject: () => {} });
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#drop(socket), replyMilliseconds);
  };

  /** Connects at once if the reader looks at the page again or the network is back. */
  #hasten = () => {
    if (document.hidden) return;
    if (this.#socket) return this.#check();
    this.#backoff.reset();
    this.#connect();
  };

  // Requests and replies

  #enqueue(/** @type {Pending} */ pending) {
    if (this.state === "online") this.#transmit(pending);
    else this.#waiting.push(pending);
  }

  #transmit(/** @type {Pending} */ pending) {
    this.#sent.push(pending);
    this.#socket?.send(pending.text);
  }

  /** @param {string} line */
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

  /** Asks the server again for the user of the connection: the name may have changed, or the session has ended. */
  async confirm() {
    const identity = await this.read("WHOAMI").catch(() => this.identity);
    if (identity === null && this.identity !== null) this.dispatchEvent(new Event("refused"));
    this.#identify(identity && { ...this.identity, ...identity });
  }

  // Subscriptions

  #begin(/** @type {Subscription} */ subscription) {
    const [verb, ...parts] = subscription.nextRequest();
    this.#transmit({
      text: encode(verb, parts), isRepeatable: false,
      resolve: (reply) => {
        this.#numbers.set(reply.sub, subscription);
        if (subscription.isClosed) return this.#unlisten(reply.sub);
        subscription.begin(reply);
      },
      reject: (error) => {
        if (error.code === "LOST" || subscription.isClosed) return;
        if (passing.includes(error.code)) return this.#retry(subscription);
        this.#subscriptions.delete(subscription);
        subscription.fail(error);
      },
    });
  }

  #retry(/** @type {Subscription} */ subscription) {
    const socket = this.#socket;
    setTimeout(() => {
      // A new connection has begun it itself.
      if (socket === this.#socket && !subscription.isClosed) this.#begin(subscription);
    }, retryMilliseconds);
  }

  #notify(/** @type {any} */ event) {
    const subscription = this.#numbers.get(event.sub);
    if (event.event !== "cancel") return subscription?.receive(event);
    this.#numbers.delete(event.sub);
    if (!subscription) return;
    this.#subscriptions.delete(subscription);
    subscription.fail(new LineError(event.code, "The server ended the live view of this."));
  }

  #unsubscribe(/** @type {Subscription} */ subscription) {
    this.#subscriptions.delete(subscription);
    for (const [number, other] of this.#numbers) if (other === subscription) this.#unlisten(number);
  }

  #unlisten(/** @type {number} */ number) {
    this.#numbers.delete(number);
    this.#transmit({ text: encode("UNLISTEN", [number]), isRepeatable: false, resolve: () => {}, reject: () => {} });
  }

  // State

  #become(/** @type {"online" | "offline"} */ state) {
    if (this.state === state) return;
    this.state = state;
    this.dispatchEvent(new Event("state"));
  }

  #identify(/** @type {any} */ identity) {
    const before = this.identity;
    this.identity = identity;
    if (JSON.stringify(before) !== JSON.stringify(identity)) this.dispatchEvent(new Event("identity"));
  }
}

/**
 * Returns the line of a request. JSON has no line break, so a text cannot become two requests.
 * @param {string} verb
 * @param {any[]} parts
 */
function encode(verb, parts) {
  return [verb, ...parts.map((part) => JSON.stringify(part))].join(" ");
}
