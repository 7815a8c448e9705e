"""Controls of writes with ldap3: write-controls-ldap3.py URL ADMIN_DN PASSWORD SUFFIX. Prints a line for each step."""

import sys

from ldap3 import MODIFY_REPLACE, Connection, Server
from ldap3.protocol.rfc4527 import post_read_control, pre_read_control

url, admin, password, suffix = sys.argv[1:]
ada = f"uid=ada,ou=people,{suffix}"


def entry_of(result, oid):
    return dict(result["controls"][oid]["value"]["result"])


with Connection(Server(url), admin, password, auto_bind=True) as connection:
    controls = [pre_read_control(["cn"]), post_read_control(["title"])]
    connection.modify(ada, {"title": [(MODIFY_REPLACE, ["Duchess"])]}, controls=controls)
    result = connection.result
    print("before", entry_of(result, "1.3.6.1.1.13.1")["cn"], "after", entry_of(result, "1.3.6.1.1.13.2")["title"])
    as_ada = ("2.16.840.1.113730.3.4.18", True, f"dn:{ada}".encode())
    print("as ada", connection.extend.standard.who_am_i(controls=[as_ada]))
