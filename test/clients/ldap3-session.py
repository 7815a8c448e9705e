"""A session with python ldap3: ldap3-session.py URL ADMIN_DN PASSWORD SUFFIX. Prints a line for each step."""

import sys

from ldap3 import ALL, MODIFY_REPLACE, SUBTREE, Connection, Server

url, admin, password, suffix = sys.argv[1:]
people = f"ou=people,{suffix}"
server = Server(url, get_info=ALL)
with Connection(server, admin, password, auto_bind=True) as connection:
    print("schema", server.schema.object_classes["person"].name[0])
    print("whoami", connection.extend.standard.who_am_i())
    paged = connection.extend.standard.paged_search(people, "(uid=*)", SUBTREE, attributes=["uid"], paged_size=5)
    print("paged", sum(1 for item in paged if item["type"] == "searchResEntry"))
    dn = f"uid=mara,{people}"
    connection.add(dn, ["inetOrgPerson"], {"uid": "mara", "cn": "Mara Lind", "sn": "Lind"})
    print("added", connection.result["result"])
    connection.modify(dn, {"sn": [(MODIFY_REPLACE, ["Lindh"])]})
    connection.search(people, "(uid=mara)", attributes=["sn"])
    print("modified", connection.entries[0].sn)
    print("compared", connection.compare(dn, "sn", "lindh"))
    connection.modify_dn(dn, "uid=m.lindh")
    connection.search(people, "(sn=Lindh)")
    dn = connection.entries[0].entry_dn
    print("renamed", dn)
    connection.extend.standard.modify_password(dn, new_password="a new secret")
    with Connection(server, dn, "a new secret", auto_bind=True) as own:
        print("password", own.extend.standard.who_am_i().removeprefix("dn:"))
    connection.delete(dn)
    connection.search(dn, "(objectClass=*)", "BASE")
    print("deleted", connection.result["result"])
stranger = Connection(server, f"uid=ada,{people}", "wrong")
stranger.bind()
print("wrong password", stranger.result["result"])
