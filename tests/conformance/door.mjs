// The conformance suite cannot send a bearer token. This stands before the gateway and adds it, and changes nothing else:
// node door.mjs PORT GATEWAY_PORT TOKEN
import http from "node:http";

const [port, gateway, token] = process.argv.slice(2);
const own = new Set([`127.0.0.1:${port}`, `localhost:${port}`]);

http
  .createServer((asked, answer) => {
    const headers = { authorization: `Bearer ${token}`, ...asked.headers };
    // Someone else's host or origin is passed on as it came: refusing it is what is examined.
    const mine = (host) => (own.has(host) ? host.replace(`:${port}`, `:${gateway}`) : host);
    headers.host = mine(headers.host);
    if (headers.origin?.startsWith("http://")) headers.origin = `http://${mine(headers.origin.slice(7))}`;
    const { method, url: path } = asked;
    const onward = http.request({ host: "127.0.0.1", port: gateway, method, path, headers, agent: false }, (came) => {
      answer.writeHead(came.statusCode, came.headers);
      answer.flushHeaders();
      came.on("data", (part) => answer.write(part));
      came.on("end", () => answer.end());
      came.on("error", () => answer.destroy());
    });
    onward.setNoDelay(true);
    onward.on("error", () => answer.destroy());
    answer.on("close", () => onward.destroy());
    asked.pipe(onward);
  })
  .listen(Number(port), "127.0.0.1");
