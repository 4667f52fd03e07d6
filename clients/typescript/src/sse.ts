// Parses server-sent events from pieces of text.

import { InvalidResponse } from "./errors.js";
import type { Event } from "./models.js";

export class Parser {
  #rest = "";
  #event = "";
  #id: string | undefined;
  #data: string[] = [];

  /** Adds a piece of text and yields the events that end in it. */
  *feed(text: string): Generator<Event> {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      const event = this.#line(line.replace(/\r$/, ""));
      if (event) yield event;
    }
  }

  #line(line: string): Event | undefined {
    if (line !== "") {
      const [, name, value = ""] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
      if (name === "event") this.#event = value;
      else if (name === "id") this.#id = value;
      else if (name === "data") this.#data.push(value);
      return undefined;
    }
    const [event, id, data] = [this.#event, this.#id, this.#data];
    [this.#event, this.#id, this.#data] = ["", undefined, []];
    if (data.length === 0) return undefined;
    try {
      return { event, id: id === undefined ? undefined : Number.parseInt(id, 10), data: JSON.parse(data.join("\n")) };
    } catch (error) {
      throw new InvalidResponse("cannot parse an event of the server", { cause: error });
    }
  }
}
