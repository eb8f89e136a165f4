# fish completion for penstock(1)

function __penstock_forwarders
    penstock status 2>/dev/null | awk 'NR > 1 { print $1 }'
end

complete -c penstock -f
complete -c penstock -s c -l config -r -F -d 'configuration'
complete -c penstock -s s -l socket -r -F -d 'status socket'
complete -c penstock -s h -l help -d 'help'
complete -c penstock -s V -l version -d 'version'

complete -c penstock -n __fish_use_subcommand -a status -d 'how the forwarders are, or everything about one'
complete -c penstock -n __fish_use_subcommand -a pause -d 'stop a forwarder without losing its place'
complete -c penstock -n __fish_use_subcommand -a resume -d 'let a paused forwarder go on'
complete -c penstock -n __fish_use_subcommand -a skip -d 'give up the one event that holds everything up'
complete -c penstock -n __fish_use_subcommand -a check -d 'all findings about the configuration'
complete -c penstock -n __fish_use_subcommand -a config -d 'the effective configuration'
complete -c penstock -n __fish_use_subcommand -a schema -d 'the SQL of the own tables'
complete -c penstock -n __fish_use_subcommand -a rebase -d 'where a forwarder goes on after a restore'

complete -c penstock -n '__fish_seen_subcommand_from status' -a '(__penstock_forwarders)'
complete -c penstock -n '__fish_seen_subcommand_from status' -l watch -d 'again each second, until q'
complete -c penstock -n '__fish_seen_subcommand_from status' -l json -d 'print JSON'
complete -c penstock -n '__fish_seen_subcommand_from pause' -a '(__penstock_forwarders)'
complete -c penstock -n '__fish_seen_subcommand_from pause' -l reason -r -d 'why, for the journal'
complete -c penstock -n '__fish_seen_subcommand_from resume' -a '(__penstock_forwarders)'
complete -c penstock -n '__fish_seen_subcommand_from resume' -l reason -r -d 'why, for the journal'
complete -c penstock -n '__fish_seen_subcommand_from skip' -a '(__penstock_forwarders)'
complete -c penstock -n '__fish_seen_subcommand_from skip' -l reason -r -d 'why, for the journal'
complete -c penstock -n '__fish_seen_subcommand_from check' -l connect -d 'look at databases and brokers too'
complete -c penstock -n '__fish_seen_subcommand_from check' -l json -d 'print JSON'
complete -c penstock -n '__fish_seen_subcommand_from schema' -l role -r -d 'role of the daemon'
complete -c penstock -n '__fish_seen_subcommand_from schema' -l event-table -r -d 'print that table too'
complete -c penstock -n '__fish_seen_subcommand_from schema' -l existing -d 'the table exists'
complete -c penstock -n '__fish_seen_subcommand_from schema' -l position -r -d 'its position column'
complete -c penstock -n '__fish_seen_subcommand_from schema' -l listen -r -d 'notify this channel'
complete -c penstock -n '__fish_seen_subcommand_from schema' -l only -x -a 'event-table tables role listen' -d 'print one part'
complete -c penstock -n '__fish_seen_subcommand_from rebase' -a '(__penstock_forwarders)'
complete -c penstock -n '__fish_seen_subcommand_from rebase' -l position -r -d 'the last position that counts as sent'
complete -c penstock -n '__fish_seen_subcommand_from rebase' -l upgraded -d 'the cluster was upgraded'
complete -c penstock -n '__fish_seen_subcommand_from rebase' -l reason -r -d 'why, for the journal'
