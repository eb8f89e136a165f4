# bash completion for penstock(1)

_penstock_forwarders() {
    "${COMP_WORDS[0]}" status "${_penstock_where[@]}" 2>/dev/null | awk 'NR > 1 { print $1 }'
}

_penstock() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local command='' options='' forwarders='' i _penstock_where=()
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
            -c | --config | -s | --socket) _penstock_where+=("${COMP_WORDS[i]}" "${COMP_WORDS[i + 1]}"); ((i++)) ;;
            -*) ;;
            *) [ -n "$command" ] || command=${COMP_WORDS[i]} ;;
        esac
    done
    case $previous in
        -c | --config | -s | --socket) COMPREPLY=($(compgen -f -- "$current")); return ;;
        --only) COMPREPLY=($(compgen -W "event-table tables role listen" -- "$current")); return ;;
        --role | --event-table | --position | --listen | --reason) return ;;
    esac
    case $command in
        '') options="status pause resume skip check config schema rebase" ;;
        status) options="--watch --json" forwarders=yes ;;
        pause) options="--reason" forwarders=yes ;;
        resume) options="--reason" forwarders=yes ;;
        skip) options="--reason" forwarders=yes ;;
        check) options="--connect --json" ;;
        config) options="" ;;
        schema) options="--role --event-table --existing --position --listen --only" ;;
        rebase) options="--position --upgraded --reason" forwarders=yes ;;
    esac
    [ -z "$forwarders" ] || [[ $current == -* ]] || options=$(_penstock_forwarders)
    [[ $current != -* ]] || options="$options --config --socket --help --version"
    COMPREPLY=($(compgen -W "$options" -- "$current"))
}

complete -F _penstock penstock
