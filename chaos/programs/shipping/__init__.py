"""A log shipper as a client of a run: lines handed to a real rsyslog, and afterwards looked for in the cluster.

An experiment begins it beside its load (``programs``) and asks for the account of it by a command (``expect``):

    python -m chaos.programs.shipping ready
    python -m chaos.programs.shipping ship INDEX --settings defaults|retrying
    python -m chaos.programs.shipping judge
"""
