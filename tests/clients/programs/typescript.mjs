// SPDX-License-Identifier: Apache-2.0
// The official TypeScript SDK: @modelcontextprotocol/sdk (1.x), @modelcontextprotocol/client (2.x).
import { readFileSync } from "node:fs";

const [where, version, text] = process.argv.slice(2);
const job = JSON.parse(text);
const file = (name) => `${where}/node_modules/@modelcontextprotocol/${name}`;
let sdk;
if (version === "1") {
    const parts = ["index", "stdio", "streamableHttp"].map(
        (name) => import(file(`sdk/dist/esm/client/${name}.js`)));
    parts.push(import(file("sdk/dist/esm/types.js")));
    sdk = Object.assign({}, ...(await Promise.all(parts)));
} else {
    const stdio = await import(file("client/dist/stdio.mjs"));
    sdk = { ...(await import(file("client/dist/index.mjs"))), ...stdio };
}
const folder = version === "1" ? "sdk" : "client";
const { version: installed } = JSON.parse(readFileSync(file(`${folder}/package.json`), "utf8"));

const asked = [];
const client = new sdk.Client(
    { name: "ipybox-test", version: "1" }, { capabilities: { elicitation: {} } });
client.setRequestHandler(
    version === "1" ? sdk.ElicitRequestSchema : "elicitation/create", async ({ params }) => {
        asked.push(params.message);
        return { action: "accept", content: { decision: "allow" } };
    });

const { url, token, command } = job.server;
const transport = url
    ? new sdk.StreamableHTTPClientTransport(
        new URL(url), { requestInit: { headers: { Authorization: `Bearer ${token}` } } })
    : new sdk.StdioClientTransport(
        { command: command[0], args: command.slice(1), env: { ...process.env } });
await client.connect(transport);

async function outcome({ tool, arguments: given, progress, cancel }) {
    const messages = [];
    const controller = new AbortController();
    const options = { signal: controller.signal };
    if (progress || cancel)
        options.onprogress = ({ message }) => {
            messages.push(message);
            if (cancel)
                controller.abort("the user ended it");
        };
    const params = { name: tool, arguments: given };
    try {
        const result = version === "1"
            ? await client.callTool(params, undefined, options)
            : await client.callTool(params, options);
        const images = result.content.filter(({ type }) => type === "image");
        for (const { data } of images)
            if (!Buffer.from(data, "base64").subarray(1, 4).equals(Buffer.from("PNG")))
                throw new Error("not a PNG file");
        return {
            text: result.content.map(({ text }) => text ?? "").join(""),
            images: images.length, error: result.isError ?? false, progress: messages,
        };
    } catch (error) {
        if (!controller.signal.aborted)
            throw error;
        return { cancelled: true };
    }
}

const { tools } = await client.listTools();
const outcomes = {};
for (const call of job.calls)
    outcomes[call.id] = await outcome(call);
await client.close();
console.log(JSON.stringify(
    { version: installed, tools: tools.map(({ name }) => name), outcomes, asked }));
