// SPDX-License-Identifier: Apache-2.0
//
// The server of kinds_server.py, made with the TypeScript SDK.
//
// usage: node kinds_server.mjs NODE_MODULES {stdio | streamable_http | sse}

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { pathToFileURL } from "node:url";

const [modules, kind] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(`${modules}/${path}`));
const { McpServer } = await load("@modelcontextprotocol/sdk/dist/esm/server/mcp.js");
const { z } = await load("zod/index.js");

const png = Buffer.from("\x89PNG not really", "latin1").toString("base64");
const wav = Buffer.from("RIFF neither").toString("base64");

function makeServer() {
  const server = new McpServer({ name: "kinds", version: "1" });
  server.registerTool("text", { description: "A text." }, async () => ({
    content: [{ type: "text", text: "grüße 😀\u2028" }],
  }));
  server.registerTool("contents", { description: "One content of each kind." }, async () => ({
    content: [
      { type: "text", text: "caption" },
      { type: "image", data: png, mimeType: "image/png" },
      { type: "audio", data: wav, mimeType: "audio/wav" },
      { type: "resource_link", uri: "test://link", name: "link" },
      {
        type: "resource",
        resource: { uri: "test://text", text: "inside", mimeType: "text/plain" },
      },
      { type: "resource", resource: { uri: "test://blob", blob: png, mimeType: "image/png" } },
    ],
  }));
  const output = {
    city: z.string(),
    temperatures: z.array(z.number()),
    wind: z.number().nullable(),
  };
  const input = { city: z.string(), days: z.number().int().default(3) };
  server.registerTool(
    "weather",
    { description: "Structured content.", inputSchema: input, outputSchema: output },
    async ({ city, days }) => {
      const temperatures = Array.from({ length: days }, (_, day) => 20 + day / 4);
      const result = { city, temperatures, wind: null };
      const text = JSON.stringify(result);
      return { content: [{ type: "text", text }], structuredContent: result };
    },
  );
  server.registerTool(
    "number",
    { description: "A value that is no object.", outputSchema: { result: z.number().int() } },
    async () => ({ content: [{ type: "text", text: "7" }], structuredContent: { result: 7 } }),
  );
  server.registerTool(
    "fail",
    { description: "Always fails.", inputSchema: { why: z.string() } },
    async ({ why }) => {
      throw new Error(why);
    },
  );
  server.registerTool(
    "count",
    { description: "Reports its progress.", inputSchema: { steps: z.number().int() } },
    async ({ steps }, { _meta, sendNotification }) => {
      for (let step = 1; step <= steps; step++) {
        const params = {
          progressToken: _meta.progressToken,
          progress: step,
          total: steps,
          message: `step ${step}`,
        };
        await sendNotification({ method: "notifications/progress", params });
      }
      return { content: [{ type: "text", text: `counted to ${steps}` }] };
    },
  );
  return server;
}

const sessions = new Map();

async function serveStreamableHttp(request, response) {
  const path = "@modelcontextprotocol/sdk/dist/esm/server/streamableHttp.js";
  const { StreamableHTTPServerTransport } = await load(path);
  let transport = sessions.get(request.headers["mcp-session-id"]);
  if (!transport) {
    transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => sessions.set(id, transport),
    });
    await makeServer().connect(transport);
  }
  await transport.handleRequest(request, response);
}

async function serveSse(request, response) {
  const { SSEServerTransport } = await load("@modelcontextprotocol/sdk/dist/esm/server/sse.js");
  const url = new URL(request.url, "http://localhost");
  if (request.method === "GET") {
    const transport = new SSEServerTransport("/messages", response);
    sessions.set(transport.sessionId, transport);
    await makeServer().connect(transport);
  } else {
    const transport = sessions.get(url.searchParams.get("sessionId"));
    if (transport) await transport.handlePostMessage(request, response);
    else response.writeHead(404).end();
  }
}

if (kind === "stdio") {
  const { StdioServerTransport } = await load("@modelcontextprotocol/sdk/dist/esm/server/stdio.js");
  await makeServer().connect(new StdioServerTransport());
} else {
  const serve = kind === "sse" ? serveSse : serveStreamableHttp;
  const server = createServer(serve);
  server.listen(0, "127.0.0.1", () => console.log(server.address().port));
}
