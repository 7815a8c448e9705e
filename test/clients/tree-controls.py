"""Deletes a tree with ldap3, and one with python-ldap: URL, DN, password, the two trees."""
import sys

import ldap
import ldap3
from ldap.controls import RequestControl

url, dn, password, first, second = sys.argv[1:]
TREE_DELETE = '1.2.840.113556.1.4.805'

with ldap3.Connection(ldap3.Server(url, get_info=ldap3.DSA), dn, password, auto_bind=True) as connection:
    assert TREE_DELETE in str(connection.server.info.supported_controls)
    assert not connection.delete(first), connection.result
    assert connection.result['description'] == 'notAllowedOnNonLeaf', connection.result
    assert connection.delete(first, controls=[(TREE_DELETE, True, None)]), connection.result
    assert not connection.search(first, '(objectClass=*)')

session = ldap.initialize(url)
session.simple_bind_s(dn, password)
session.delete_ext_s(second, serverctrls=[RequestControl(TREE_DELETE, True)])
try:
    session.search_s(second, ldap.SCOPE_BASE)
    raise AssertionError('the tree is still there')
except ldap.NO_SUCH_OBJECT:
    print('gone')
