// What can go wrong. Whatever it is, a guarded function has not run unless its class says otherwise.

import type { Result } from "./models.js";

/** Anything that this package throws. */
export class ByleaveError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The server cannot be reached, or went away. What was accepted is found again with the same key. */
export class Unreachable extends ByleaveError {}

/** The server answered what cannot be understood; it is taken as no. */
export class Nonsense extends ByleaveError {}

/** The function has run, and the server could not be told what came of it; the call ends as unknown. */
export class Unreported extends ByleaveError {}

/** The server refused a request (RFC 9457). */
export class Problem extends ByleaveError {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly title: string,
    readonly detail: string,
    readonly page: string,
    readonly retryAfterS: number | undefined,
  ) {
    super(`${detail} (${code}, ${status})`);
  }
}

/** There is no token, or none that counts. */
export class Unauthenticated extends Problem {}
/** The token is good, and not for this. */
export class Forbidden extends Problem {}
/** There is no such thing, or not for you. */
export class NotFound extends Problem {}
/** The key, the claim or the question was used already; `code` says which. */
export class Conflict extends Problem {}
/** More requests than are allowed; `retryAfterS` says when. */
export class TooMany extends Problem {}

const BY_STATUS = new Map<number, typeof Problem>([
  [401, Unauthenticated],
  [403, Forbidden],
  [404, NotFound],
  [409, Conflict],
  [429, TooMany],
]);

/** The class of a problem with this status. */
export const problemClass = (status: number): typeof Problem => BY_STATUS.get(status) ?? Problem;

/** A call that was settled without a result that the model may have. */
export class NotCompleted extends ByleaveError {
  constructor(message: string, readonly result: Result) {
    super(message);
  }
}

/** It ran, and says that it failed. */
export class Failed extends NotCompleted {}

/** It did not run, and here is why. */
export class Refused extends NotCompleted {
  constructor(result: Result, readonly code: string, readonly why: string, readonly page: string) {
    super(`${why} (${code})`, result);
  }
}

/** It ran, and its result is not released. */
export class Withheld extends Refused {}

/** It may have run; nobody can say. */
export class Unknown extends Refused {}

/** The call is not settled yet. It goes on; the same key finds it again. */
export class WaitedTooLong extends ByleaveError {
  constructor(readonly call: string, readonly state: string) {
    super(`call ${call} is still ${state}`);
  }
}
