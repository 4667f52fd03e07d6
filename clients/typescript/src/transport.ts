// Sends requests to the server. Retries if that is safe and the server is unreachable or busy.

import { ByleaveError, InvalidResponse, type Problem, Unreachable, problemClass } from "./errors.js";
import { isObject } from "./models.js";

/** The time that one request waits for a call to be settled, in seconds. The server allows 60. */
export const WAIT_S = 30;

export interface Request {
  method: string;
  path: string[];
  query?: { [name: string]: string | number | undefined };
  body?: unknown;
  headers?: { [name: string]: string };
  /** Whether the request is idempotent. */
  repeatable?: boolean;
}

/** Options of a client. */
export interface ClientOptions {
  /** The address of the server; BYLEAVE_URL by default. */
  baseUrl?: string;
  /** The token; BYLEAVE_TOKEN by default. */
  token?: string;
  /** The maximum number of attempts for requests that are safe to repeat. */
  tries?: number;
}

export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

export class Transport {
  readonly tries: number;
  readonly #base: string;
  readonly #token: string;

  constructor(options: ClientOptions) {
    const base = options.baseUrl ?? process.env["BYLEAVE_URL"];
    const token = options.token ?? process.env["BYLEAVE_TOKEN"];
    if (!base || !token) throw new ByleaveError("the server address or the token is missing; pass `baseUrl` and `token`, or set BYLEAVE_URL and BYLEAVE_TOKEN");
    this.#base = base.replace(/\/+$/, "").replace(/\/v1$/, "");
    this.#token = token;
    this.tries = Math.max(1, options.tries ?? 5);
  }

  /** Sends a request and returns the JSON of the response. */
  async json(request: Request, tries = this.tries): Promise<unknown> {
    return parseJson(await this.text(request, tries));
  }

  /** Sends a request and returns the response as text. */
  async text(request: Request, tries = this.tries): Promise<string> {
    for (let attempt = 1; ; attempt += 1) {
      const isLast = attempt >= tries || !request.repeatable;
      let response: Response;
      let body: string;
      try {
        response = await this.fetch(request, AbortSignal.timeout((WAIT_S + 30) * 1000));
        body = await response.text();
      } catch (error) {
        if (isLast) throw new Unreachable(`cannot reach the server: ${String(error)}`, { cause: error });
        await pause(Math.min(50 * 2 ** attempt, 5000));
        continue;
      }
      if (response.ok) return body;
      const problem = problemOf(response, body);
      if (isLast || problem.code !== "too-many") throw problem;
      await pause((problem.retryAfterS ?? 1) * 1000);
    }
  }

  /** Sends a request once. Does not follow redirects, which would send the token to another server. */
  fetch(request: Request, signal: AbortSignal): Promise<Response> {
    // A part such as `..` would change the path.
    const path = request.path.map((part) => (/^\.*$/.test(part) ? "-" : encodeURIComponent(part))).join("/");
    const url = new URL(`${this.#base}/v1/${path}`);
    for (const [name, value] of Object.entries(request.query ?? {})) {
      if (value !== undefined) url.searchParams.set(name, String(value));
    }
    const headers: { [name: string]: string } = { authorization: `Bearer ${this.#token}`, ...request.headers };
    const options: RequestInit = { method: request.method, headers, redirect: "manual", signal };
    if (request.body !== undefined) {
      headers["content-type"] = "application/json";
      options.body = JSON.stringify(request.body);
    }
    return fetch(url, options);
  }
}

/** Returns the problem in a response. Throws `InvalidResponse` if the response is not a problem. */
export function problemOf(response: Response, body: string): Problem {
  const problem = response.headers.get("content-type") === "application/problem+json" ? parseJson(body) : undefined;
  if (!isObject(problem)) throw new InvalidResponse(`the server answered with status ${response.status} and without a problem document`);
  const part = (name: string) => String(problem[name] ?? "");
  const after = Number.parseInt(response.headers.get("retry-after") ?? "", 10);
  const kind = problemClass(response.status);
  const retryAfterS = Number.isNaN(after) ? undefined : after;
  return new kind(response.status, part("code"), part("title"), part("detail"), part("type"), retryAfterS);
}

function parseJson(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch (error) {
    throw new InvalidResponse("the response of the server is not valid JSON", { cause: error });
  }
}
