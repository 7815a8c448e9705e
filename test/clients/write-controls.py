"""Controls of writes with python-ldap: write-controls.py URL ADMIN_DN PASSWORD SUFFIX. Prints a line for each step."""

import sys

import ldap
from ldap.controls import AssertionControl, RequestControlTuples
from ldap.controls.readentry import PostReadControl, PreReadControl
from ldap.controls.simple import ProxyAuthzControl, RelaxRulesControl

url, admin, password, suffix = sys.argv[1:]
ada = f"uid=ada,ou=people,{suffix}"
connection = ldap.initialize(url)
connection.simple_bind_s(admin, password)


def modify(changes, *controls):
    try:
        _, _, _, answers = connection.modify_ext_s(ada, changes, serverctrls=list(controls))
        return [sorted((name, values[0].decode()) for name, values in one.entry.items()) for one in answers]
    except ldap.LDAPError as error:
        return error.args[0].get("result")


title = [(ldap.MOD_REPLACE, "title", [b"Countess"])]
print("read", modify(title, PreReadControl(True, ["cn"]), PostReadControl(True, ["title"])))
print("asserted", modify(title, AssertionControl(True, "(title=Countess)"), PostReadControl(True, ["title"])))
print("not so", modify(title, AssertionControl(True, "(title=Duchess)")))
as_ada = ProxyAuthzControl(True, f"dn:{ada}".encode())
print("as ada", modify(title, as_ada), connection.whoami_s(serverctrls=RequestControlTuples([as_ada])))
moment = [(ldap.MOD_REPLACE, "createTimestamp", [b"18151210000000Z"])]
print("not relaxed", modify(moment))
print("relaxed", modify(moment, RelaxRulesControl(True), PostReadControl(True, ["createTimestamp"])))
