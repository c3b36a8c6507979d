// SPDX-License-Identifier: Apache-2.0

//! The official Rust SDK.

use std::error::Error;
use std::sync::Mutex;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig,
    ClientRequest, ContentBlock, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, ErrorData, Implementation, ProgressNotificationParam, ServerResult,
};
use rmcp::service::{
    NotificationContext, PeerRequestOptions, RequestContext, RoleClient, RunningService,
};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ServiceExt};
use serde_json::{Map, Value, json};
use tokio::process::Command;
use tokio::sync::mpsc;

type Result<T> = std::result::Result<T, Box<dyn Error>>;
type Session = RunningService<RoleClient, Handler>;

// More than a job has: handlers never wait for the program.
const MAX_MESSAGES: usize = 100;

// Base64 of the first eight bytes of a PNG file.
const PNG: &str = "iVBORw0KGgo";

struct Handler {
    asked: Mutex<Vec<String>>,
    progress: mpsc::Sender<ProgressNotificationParam>,
}

impl ClientHandler for Handler {
    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> std::result::Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, .. } = request else {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        };
        self.asked.lock().expect("no thread panics").push(message);
        let content = json!({"decision": "allow"});
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(content))
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        // The program reads until it ends.
        let _ = self.progress.send(params).await;
    }

    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(ElicitationCapability::default());
        ClientConfig::new(capabilities, Implementation::new("ipybox-test", "1"))
    }
}

async fn connect(server: &Value, handler: Handler) -> Result<Session> {
    if let Some(url) = server["url"].as_str() {
        let token = server["token"].as_str().ok_or("the job has no token")?;
        let config = StreamableHttpClientTransportConfig::with_uri(url).auth_header(token);
        let transport = StreamableHttpClientTransport::from_config(config);
        return Ok(handler.serve(transport).await?);
    }
    let words: Vec<String> = serde_json::from_value(server["command"].clone())?;
    let (program, arguments) = words.split_first().ok_or("the job has no command")?;
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(handler.serve(TokioChildProcess::new(command)?).await?)
}

fn content(result: &CallToolResult, messages: &[String]) -> Result<Value> {
    let mut text = String::new();
    let mut images = 0;
    for block in &result.content {
        match block {
            ContentBlock::Text(block) => text.push_str(&block.text),
            ContentBlock::Image(block) if block.data.starts_with(PNG) => images += 1,
            ContentBlock::Image(_) => return Err("not a PNG file".into()),
            _ => (),
        }
    }
    let error = result.is_error.unwrap_or(false);
    Ok(json!({"text": text, "images": images, "error": error, "progress": messages}))
}

async fn outcome(
    session: &Session,
    progress: &mut mpsc::Receiver<ProgressNotificationParam>,
    call: &Value,
) -> Result<Value> {
    let tool = call["tool"]
        .as_str()
        .ok_or("a call has no tool")?
        .to_owned();
    let arguments: Map<String, Value> = serde_json::from_value(call["arguments"].clone())?;
    let params = CallToolRequestParams::new(tool).with_arguments(arguments);
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let options = PeerRequestOptions::no_options();
    let mut handle = session.send_cancellable_request(request, options).await?;
    let mut messages = Vec::new();
    let result = loop {
        tokio::select! {
            // The program sees all progress that came before the result.
            biased;
            Some(step) = progress.recv() => {
                if step.progress_token != handle.progress_token {
                    continue;
                }
                if call["cancel"] == true {
                    handle.cancel(Some("the user ended it".into())).await?;
                    return Ok(json!({"cancelled": true}));
                }
                messages.extend(step.message);
            }
            result = &mut handle.rx => break result??,
        }
    };
    match result {
        ServerResult::CallToolResult(result) => content(&result, &messages),
        other => Err(format!("{}: {other:?}", call["id"]).into()),
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let job = std::env::args().nth(1).ok_or("usage: ipybox-test JOB")?;
    let job: Value = serde_json::from_str(&job)?;
    let (sender, mut progress) = mpsc::channel(MAX_MESSAGES);
    let handler = Handler {
        asked: Mutex::default(),
        progress: sender,
    };
    let mut session = connect(&job["server"], handler).await?;
    let tools = session.list_all_tools().await?;
    let mut outcomes = Map::new();
    for call in job["calls"].as_array().ok_or("the job has no calls")? {
        let id = call["id"].as_str().ok_or("a call has no id")?;
        outcomes.insert(id.to_owned(), outcome(&session, &mut progress, call).await?);
    }
    let asked = session
        .service()
        .asked
        .lock()
        .expect("no thread panics")
        .clone();
    session.close().await?;
    let seen = json!({
        // It has the version of the crate that calls env!(): the SDK.
        "version": Implementation::from_build_env().version,
        "tools": tools.iter().map(|tool| &tool.name).collect::<Vec<_>>(),
        "outcomes": outcomes,
        "asked": asked,
    });
    println!("{seen}");
    Ok(())
}
