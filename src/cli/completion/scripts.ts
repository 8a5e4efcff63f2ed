/** The scripts of `cuda-ipc completion`. They only pass on what `cuda-ipc complete` answers. */

export const shells = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof shells)[number];

/** `$2` is the part of the line that bash replaces. */
const bash = `# Completion of cuda-ipc in bash. Load it with: source <(cuda-ipc completion bash)
_cuda_ipc() {
  mapfile -t COMPREPLY < <(
    command cuda-ipc complete bash -- "\${COMP_LINE:0:COMP_POINT}" "$2" 2>/dev/null
  )
  [[ \${COMPREPLY[0]} == files ]] && compopt -o default
  COMPREPLY=("\${COMPREPLY[@]:1}")
}
complete -F _cuda_ipc cuda-ipc
`;

const zsh = `#compdef cuda-ipc
# Completion of cuda-ipc in zsh. Load it after compinit with: source <(cuda-ipc completion zsh)
_cuda_ipc() {
  local -a answer values shown
  local value line
  answer=("\${(@0)$(
    command cuda-ipc complete zsh -- "\${(@Q)words[2,CURRENT-1]}" "\${(Q)PREFIX}" 2>/dev/null
  )}")
  if [[ $answer[1] == files ]]; then
    compset -P 1 '--*='
    _files
    return
  fi
  for value line in "\${(@)answer[2,-2]}"; do
    values+=("$value")
    shown+=("\${line[1,COLUMNS-1]}")
  done
  compadd -l -d shown -a values
}
if [[ $funcstack[1] == _cuda_ipc ]]; then _cuda_ipc "$@"; else compdef _cuda_ipc cuda-ipc; fi
`;

const fish = `# Completion of cuda-ipc in fish. Load it with: cuda-ipc completion fish | source
function __cuda_ipc_offers
    set -g __cuda_ipc_values (
        command cuda-ipc complete fish -- (commandline -opc) (commandline -ct) 2>/dev/null |
            string split0
    )
    test "$__cuda_ipc_values[1]" = values; and set -e __cuda_ipc_values[1]
end
complete -c cuda-ipc -n __cuda_ipc_offers -f -a '$__cuda_ipc_values'
`;

export const scripts: Readonly<Record<Shell, string>> = { bash, zsh, fish };
