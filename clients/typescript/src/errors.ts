// Errors. A guarded function has not run unless the class of the error says otherwise.

/** The base class of all errors of this package. */
export class ByleaveError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The server cannot be reached, or the connection broke. An accepted call can be found again with the same key. */
export class Unreachable extends ByleaveError {}

/** The response of the server is not valid. It is treated as a refusal. */
export class InvalidResponse extends ByleaveError {}

/** The function has run, but its result could not be reported to the server. The outcome of the call is unknown. */
export class ReportFailed extends ByleaveError {}

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

/** The token is missing or not valid. */
export class Unauthenticated extends Problem {}
/** The token does not allow this. */
export class Forbidden extends Problem {}
/** The object does not exist, or you may not see it. */
export class NotFound extends Problem {}
/** The key, the claim or the question was already used; `code` says which. */
export class Conflict extends Problem {}
/** Too many requests; `retryAfterS` says when to try again. */
export class TooManyRequests extends Problem {}

const BY_STATUS = new Map<number, typeof Problem>([
  [401, Unauthenticated],
  [403, Forbidden],
  [404, NotFound],
  [409, Conflict],
  [429, TooManyRequests],
]);

/** The error class for this status. */
export const problemClass = (status: number): typeof Problem => BY_STATUS.get(status) ?? Problem;

/** The call is not settled yet. It continues, and can be found again with the same key. */
export class WaitTimeout extends ByleaveError {
  constructor(readonly call: string, readonly state: string) {
    super(`call ${call} is still ${state}`);
  }
}
