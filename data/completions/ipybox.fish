# SPDX-License-Identifier: Apache-2.0
# fish completion of ipybox(1)

set -l verbs run changes apigen servers login logout rules sandbox selftest doctor gateway kernel \
    kernelspec mcp record rpc serve tool-server actions
set -l commands list add remove import

# Whether the verb is one of the arguments. Without a verb it is mcp.
function __ipybox_is
    set -l words (commandline -opc)
    set -l verb mcp
    if set -q words[2]; and not string match -q -- '-*' $words[2]
        set verb $words[2]
    end
    contains -- $verb $argv
end

# Whether the command line has no word after the program yet.
function __ipybox_is_first
    test (count (commandline -opc)) = 1
end

function __ipybox_layers
    ipybox changes 2>/dev/null | string replace -rf '^(layer-\S+) .*' '$1'
end

function __ipybox_registered
    ipybox servers 2>/dev/null | string replace -rf '^[0-9a-f]{32} +(\S+) .*' '$1'
end

# Without this, fish 3.6 offers --workspace=--workspace=DIR after `--workspace=`.
function __ipybox_directories
    __fish_complete_directories (commandline -ct | string replace -r '^--[^=]*=' '')
end

function __ipybox_pythons
    complete -C python | string replace -rf '^(python[0-9.]*)(\t.*)?$' '$1'
end

complete -c ipybox -f
complete -c ipybox -s h -l help -d 'Show the options and exit'
complete -c ipybox -n __ipybox_is_first -l version -d 'Show the version and exit'

complete -c ipybox -n __ipybox_is_first -a run -d 'Run Python code as one cell'
complete -c ipybox -n __ipybox_is_first -a changes \
    -d 'Review what sessions with a staged workspace have changed'
complete -c ipybox -n __ipybox_is_first -a apigen -d 'Generate the Python API of an MCP server'
complete -c ipybox -n __ipybox_is_first -a actions -d 'List, test or remove saved code actions'
complete -c ipybox -n __ipybox_is_first -a servers \
    -d 'List, add, remove or import registered MCP servers'
complete -c ipybox -n __ipybox_is_first -a login -d 'Log in to an MCP server over HTTP'
complete -c ipybox -n __ipybox_is_first -a logout -d 'Remove the tokens of a login'
complete -c ipybox -n __ipybox_is_first -a rules -d 'Check approval rules'
complete -c ipybox -n __ipybox_is_first -a sandbox -d 'Run a command in a sandbox, or explain it'
complete -c ipybox -n __ipybox_is_first -a selftest \
    -d 'Attack a sandbox from inside, and report what was stopped'
complete -c ipybox -n __ipybox_is_first -a doctor -d 'Check this machine'
complete -c ipybox -n __ipybox_is_first -a gateway -d 'Serve kernels to Jupyter clients over HTTP'
complete -c ipybox -n __ipybox_is_first -a kernel -d 'Serve a kernel to a Jupyter front end'
complete -c ipybox -n __ipybox_is_first -a kernelspec \
    -d 'List ipybox among the kernels of Jupyter front ends'
complete -c ipybox -n __ipybox_is_first -a mcp -d 'Run the MCP server on standard input and output'
complete -c ipybox -n __ipybox_is_first -a record \
    -d 'Make a document of a record, or run it again'
complete -c ipybox -n __ipybox_is_first -a rpc -d 'Serve SDKs'
complete -c ipybox -n __ipybox_is_first -a serve -d 'Run the MCP server over HTTP'
complete -c ipybox -n __ipybox_is_first -a tool-server -d 'Run tools of MCP servers over HTTP'

# Options of several verbs.
complete -c ipybox \
    -n '__ipybox_is mcp run record apigen sandbox gateway kernel serve tool-server actions' \
    -l workspace -xa '(__ipybox_directories)' -d 'Working directory'
complete -c ipybox -n '__ipybox_is doctor' -l setup -d 'Make an environment for kernels'
complete -c ipybox -n '__ipybox_is mcp run record doctor gateway kernel kernelspec serve actions' \
    -l python \
    -rFa '(__ipybox_pythons)' -d 'Interpreter for kernels'
complete -c ipybox -n '__ipybox_is mcp run record gateway kernel kernelspec serve' -l preload -x \
    -d 'Modules to import once, separated by commas'
complete -c ipybox \
    -n '__ipybox_is mcp run record apigen gateway kernel rpc serve tool-server actions' \
    -l log-level \
    -xa 'DEBUG INFO WARNING ERROR CRITICAL' \
    -d 'Lowest level to log'

complete -c ipybox -n '__ipybox_is mcp run record kernel kernelspec serve tool-server actions' \
    -l approve -rFa 'allow ask deny' -d 'Decision about tool calls'
complete -c ipybox -n '__ipybox_is mcp run record kernel kernelspec serve tool-server actions' \
    -l audit-log -rF \
    -d 'Append a line for each decision on a tool call'
complete -c ipybox -n '__ipybox_is mcp run record' \
    -l record -rF -d 'Append what happens in the session'

complete -c ipybox -n '__ipybox_is mcp gateway' -l sandbox -d 'Run code in a sandbox'
complete -c ipybox \
    -n '__ipybox_is mcp run record gateway kernel kernelspec serve changes actions' \
    -l sandbox-config -rF \
    -d 'What the sandbox allows'
complete -c ipybox -n '__ipybox_is mcp run record serve' -l allowed-domains -x \
    -d 'Domains that sandboxes may reach'
complete -c ipybox -n '__ipybox_is run record kernel kernelspec' \
    -l no-sandbox -d 'Run without a sandbox'
complete -c ipybox -n '__ipybox_is mcp' -l unsandboxed-servers \
    -d 'Run servers of the client outside of the sandbox'
complete -c ipybox -n '__ipybox_is mcp serve' -l servers -rF -d 'Register the servers of this file'
complete -c ipybox -n '__ipybox_is mcp serve' -l no-register \
    -d 'Do not offer the tool register_mcp_server'
complete -c ipybox -n '__ipybox_is mcp serve' -l images -xa 'content path both' \
    -d 'Images of cells in answers'
complete -c ipybox -n '__ipybox_is mcp serve' -l structured \
    -d 'Structured results for all tools'
complete -c ipybox -n '__ipybox_is mcp serve' -l tools -x \
    -d 'Tools to offer, separated by commas'
complete -c ipybox -n '__ipybox_is mcp serve' -l server-variables -x \
    -d 'Variables of server parameters, separated by commas'
complete -c ipybox -n '__ipybox_is mcp serve' -l allow-builds -d 'Also build packages'
complete -c ipybox -n '__ipybox_is mcp' -l tool-server-host -x -d 'Accepted, without effect'
complete -c ipybox -n '__ipybox_is mcp' -l tool-server-port -x -d 'Accepted, without effect'
complete -c ipybox -n '__ipybox_is mcp' -l kernel-gateway-host -x -d 'Accepted, without effect'
complete -c ipybox -n '__ipybox_is mcp' -l kernel-gateway-port -x -d 'Accepted, without effect'

complete -c ipybox -n '__ipybox_is run' \
    -xa '(__fish_complete_suffix .py; __fish_complete_suffix .ipynb)'
complete -c ipybox -n '__ipybox_is run' -l save -d 'Write the outputs into the notebook'
complete -c ipybox -n '__ipybox_is run' -s c -l code -x -d 'Run this code'
complete -c ipybox -n '__ipybox_is run record' -l images-dir -xa '(__ipybox_directories)' \
    -d 'Directory for saved plots'
complete -c ipybox -n '__ipybox_is run record actions' -l timeout -x \
    -d 'Interrupt the code after this many seconds'
complete -c ipybox -n '__ipybox_is mcp run record kernel serve tool-server actions' \
    -l approval-timeout -x \
    -d 'Refuse a call after this many seconds without an answer'
complete -c ipybox -n '__ipybox_is run record' \
    -l seed -x -d 'Seed for random, numpy.random and torch'

complete -c ipybox -n '__ipybox_is apigen' -l server-name -xa '(__ipybox_registered)' \
    -d 'Name of the package'
complete -c ipybox -n '__ipybox_is apigen' -l server-params -x \
    -d 'How to start or reach the server, as JSON'
complete -c ipybox -n '__ipybox_is apigen' -l root-dir -xa '(__ipybox_directories)' \
    -d 'Directory for the package'
complete -c ipybox -n '__ipybox_is apigen' -l async -d 'Generate coroutine functions'
complete -c ipybox -n '__ipybox_is apigen' -l signatures -d 'Print a signature of each tool'
complete -c ipybox -n '__ipybox_is apigen' -l stubs -d 'Print the classes and run() of each tool'
complete -c ipybox -n '__ipybox_is apigen tool-server' -l connect-timeout -x \
    -d 'Seconds for the server to start'

complete -c ipybox -n '__ipybox_is kernel' -s f -l connection-file -rF -d 'Where to listen'
complete -c ipybox -n '__ipybox_is kernelspec' -xa 'install list remove'
complete -c ipybox -n '__ipybox_is kernelspec' -l name -x -d 'Name of the kernelspec'
complete -c ipybox -n '__ipybox_is kernelspec' -l display-name -x -d 'What front ends show'
complete -c ipybox -n '__ipybox_is kernelspec' -l prefix -xa '(__ipybox_directories)' \
    -d 'Install below this directory'
complete -c ipybox -n '__ipybox_is kernelspec' -l json -d 'Print JSON'

complete -c ipybox -n '__ipybox_is gateway' -l host -x -d 'Name or address to listen on'
complete -c ipybox -n '__ipybox_is gateway' -l port -x -d 'Port to listen on'
complete -c ipybox -n '__ipybox_is gateway' -l token-file -rF -d 'File with the token for clients'
complete -c ipybox -n '__ipybox_is gateway' -l allow-host -x \
    -d 'Also accept this name in the Host header'
complete -c ipybox -n '__ipybox_is gateway' -l allow-origin -x \
    -d 'Accept requests of web pages of this origin'
complete -c ipybox -n '__ipybox_is gateway' -l max-kernels -x -d 'Maximum number of kernels'
complete -c ipybox -n '__ipybox_is gateway' -l cull-idle -x \
    -d 'End kernels that idle for this many seconds'
complete -c ipybox -n '__ipybox_is gateway' -l cull-connected -d 'End kernels with clients, too'
complete -c ipybox -n '__ipybox_is gateway' -l prespawn -x -d 'Start this number of kernels now'
complete -c ipybox -n '__ipybox_is gateway' -l seed-notebook -rF \
    -d 'Each kernel first runs this notebook'
complete -c ipybox -n '__ipybox_is gateway' -l record-dir \
    -xa '(__ipybox_directories)' \
    -d 'Write a record of each kernel to this directory'
complete -c ipybox -n '__ipybox_is gateway' -l kernel-name -x -d 'Name of the kernelspec'
complete -c ipybox -n '__ipybox_is gateway' -l allow-kernelspec -x \
    -d 'With a sandbox: offer this kernelspec although it allows more'
complete -c ipybox -n '__ipybox_is gateway' -l force-kernel-name \
    -d 'Start a kernel whatever name a client gives'
complete -c ipybox -n '__ipybox_is gateway' -l hide-kernels -d 'List no kernels and sessions'
complete -c ipybox -n '__ipybox_is gateway' -l allow-env -x \
    -d 'Clients may set this variable of their kernels'
complete -c ipybox -n '__ipybox_is gateway' -l inherit-env -x \
    -d 'Kernels get this variable of the gateway'
complete -c ipybox -n '__ipybox_is gateway' -l base-url -x -d 'Path before all paths of requests'
complete -c ipybox -n '__ipybox_is gateway' -l allow-credentials -x \
    -d 'Header Access-Control-Allow-Credentials'
complete -c ipybox -n '__ipybox_is gateway' -l allow-headers -x \
    -d 'Header Access-Control-Allow-Headers'
complete -c ipybox -n '__ipybox_is gateway' -l allow-methods -x \
    -d 'Header Access-Control-Allow-Methods'
complete -c ipybox -n '__ipybox_is gateway' -l expose-headers -x \
    -d 'Header Access-Control-Expose-Headers'
complete -c ipybox -n '__ipybox_is gateway' -l max-age -x -d 'Header Access-Control-Max-Age'

set -l with_value -s --settings -c --command --workspace --control-fd --violation-log
complete -c ipybox -n '__ipybox_is sandbox' \
    -xa "(__fish_complete_subcommand --fcs-skip=2 $with_value)"
complete -c ipybox -n '__ipybox_is sandbox' -s s -l settings -rF -d 'Configuration of the sandbox'
complete -c ipybox -n '__ipybox_is sandbox' -s c -l command -x -d 'Run this in a shell'
complete -c ipybox -n '__ipybox_is sandbox' -l explain \
    -d 'Print what the sandbox allows, run nothing'
complete -c ipybox -n '__ipybox_is sandbox' -l allow-weaker \
    -d 'Work without namespaces if they are forbidden'
complete -c ipybox -n '__ipybox_is sandbox' -l control-fd -x \
    -d 'Read new configurations from this descriptor'
complete -c ipybox -n '__ipybox_is sandbox' -l violation-log -rF -d 'Append denials to this file'
complete -c ipybox -n '__ipybox_is sandbox' -s d -l debug -d 'Report what is done'
complete -c ipybox -n '__ipybox_is sandbox' -s V -l version -d 'Show the version and exit'

complete -c ipybox -n '__ipybox_is tool-server' -l host -x -d 'Name or address to listen on'
complete -c ipybox -n '__ipybox_is tool-server' -l port -x -d 'Port to listen on'
complete -c ipybox -n '__ipybox_is tool-server' -l approval-required -d 'Ask the approval client'
complete -c ipybox -n '__ipybox_is tool-server' -l allow-host -x \
    -d 'Also accept this name in the Host header'
complete -c ipybox -n '__ipybox_is tool-server' -l allow-origin -x \
    -d 'Accept requests of web pages of this origin'

complete -c ipybox -n '__ipybox_is login logout' -a '(__ipybox_registered)'
complete -c ipybox -n '__ipybox_is login' -l port -x -d 'Port for the redirect of the browser'
complete -c ipybox -n '__ipybox_is login' -l scope -x -d 'Request these scopes'
complete -c ipybox -n '__ipybox_is login' -l timeout -x -d 'Seconds to wait for the login'
complete -c ipybox -n '__ipybox_is login' -l no-browser \
    -d 'Print the address, do not open a browser'
complete -c ipybox -n '__ipybox_is logout' -l all -d 'Log out of every server'

complete -c ipybox -n '__ipybox_is record' -l replay \
    -d 'Run the cells again, and report what differs'
complete -c ipybox -n '__ipybox_is record' -l session -x -d 'Which session of the record'
complete -c ipybox -n '__ipybox_is record' -l json -d 'Report in lines of JSON'
complete -c ipybox -n '__ipybox_is record' -l to -rF -d 'File of the document'
complete -c ipybox -n '__ipybox_is record' -l format -xa 'ipynb md html' \
    -d 'Format of the document'
complete -c ipybox -n '__ipybox_is record' -xa '(__fish_complete_suffix .jsonl)'

complete -c ipybox -n '__ipybox_is selftest' -l staged -d 'Attack a staged workspace, too'
complete -c ipybox -n '__ipybox_is run mcp serve gateway kernel kernelspec record' -l staged \
    -d 'Keep what cells write aside'
complete -c ipybox -n '__ipybox_is run mcp serve gateway kernel kernelspec record changes' \
    -l staging-dir -xa '(__ipybox_directories)' -d 'Where changes are kept'
complete -c ipybox -n '__ipybox_is changes' -s y -l yes -d 'Commit without asking'
complete -c ipybox -n '__ipybox_is changes' -l diff -d 'Show diffs of texts, too'
set -l change_commands list show commit discard
set -l no_change_command \
    "__ipybox_is changes; and not __fish_seen_subcommand_from $change_commands"
complete -c ipybox -n $no_change_command -a list -d 'Print what sessions have left'
complete -c ipybox -n $no_change_command -a show -d 'Print changes'
complete -c ipybox -n $no_change_command -a commit -d 'Write changes to the workspace'
complete -c ipybox -n $no_change_command -a discard -d 'Forget changes'
complete -c ipybox \
    -n '__ipybox_is changes; and __fish_seen_subcommand_from show commit discard' \
    -a '(__ipybox_layers)'

set -l no_command "__ipybox_is servers; and not __fish_seen_subcommand_from $commands"
complete -c ipybox -n '__ipybox_is rules' -xa '(__fish_complete_suffix .json)'

complete -c ipybox -n '__ipybox_is servers changes rules doctor sandbox selftest actions' -l json \
    -d 'Print JSON'
complete -c ipybox -n '__ipybox_is actions' -xa 'list test remove'
complete -c ipybox -n $no_command -a list -d 'Print the registered servers'
complete -c ipybox -n $no_command -a add -d 'Register a server'
complete -c ipybox -n $no_command -a remove -d 'Remove a server'
complete -c ipybox -n $no_command -a import -d 'Register the servers of an MCP host'
complete -c ipybox -n '__ipybox_is servers; and __fish_seen_subcommand_from remove' \
    -a '(__ipybox_registered)'
complete -c ipybox -n '__ipybox_is servers; and __fish_seen_subcommand_from import' \
    -a '(__fish_complete_suffix .json)'

complete -c ipybox -n '__ipybox_is serve' -l host -x -d 'Name or address to listen on'
complete -c ipybox -n '__ipybox_is serve' -l port -x -d 'Port to listen on'
complete -c ipybox -n '__ipybox_is serve' -l token-file -rF \
    -d 'File with a name and a token for each client'
complete -c ipybox -n '__ipybox_is serve' -l tls-certificate -rF \
    -d 'Use TLS with the certificate in this file'
complete -c ipybox -n '__ipybox_is serve' -l tls-key -rF -d 'Key of the certificate'
complete -c ipybox -n '__ipybox_is serve' -l unix-socket -rF -d 'Listen on a Unix socket instead'
complete -c ipybox -n '__ipybox_is serve' -l unix-socket-group -x \
    -d 'Group that may connect to the Unix socket'
complete -c ipybox -n '__ipybox_is serve' -l behind-proxy -x \
    -d 'Only this address or network may connect'
complete -c ipybox -n '__ipybox_is serve' -l allow-host -x \
    -d 'Also accept this name in the Host header'
complete -c ipybox -n '__ipybox_is serve' -l allow-origin -x \
    -d 'Accept requests of web pages of this origin'
complete -c ipybox -n '__ipybox_is serve' -l unsandboxed-kernels \
    -d 'Run kernels without sandboxes'
complete -c ipybox -n '__ipybox_is serve' -l idle-timeout -x \
    -d 'End sessions that are silent for so many seconds'
complete -c ipybox -n '__ipybox_is serve' -l max-lifetime -x \
    -d 'End sessions that are so many seconds old'
complete -c ipybox -n '__ipybox_is serve' -l lifetime-grace -x \
    -d 'How many seconds their cells may still run'
complete -c ipybox -n '__ipybox_is serve' -l max-sessions -x -d 'Maximum number of sessions'
complete -c ipybox -n '__ipybox_is serve' -l max-sessions-each -x \
    -d 'Maximum number of sessions of a client'
complete -c ipybox -n '__ipybox_is serve' -l max-connections -x \
    -d 'Maximum number of connections'
complete -c ipybox -n '__ipybox_is serve' -l pool -x \
    -d 'Kernels that are ready before they are needed'
