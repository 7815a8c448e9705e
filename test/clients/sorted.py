"""Sorted pages and windows with python-ldap, and with ldap3. Arguments: library, URL, DN, password, base."""
import sys

library, url, dn, password, base = sys.argv[1:]
FILTER = '(objectClass=inetOrgPerson)'


def python_ldap():
    import ldap
    from ldap.controls import SimplePagedResultsControl
    from ldap.controls.sss import SSSRequestControl
    from ldap.controls.vlv import VLVRequestControl, VLVResponseControl

    server = ldap.initialize(url)
    server.simple_bind_s(dn, password)
    sort = SSSRequestControl(criticality=True, ordering_rules=['-uid:caseIgnoreOrderingMatch'])
    known = {VLVResponseControl.controlType: VLVResponseControl}
    pages = SimplePagedResultsControl(True, size=5, cookie='')
    found = []
    while True:
        message = server.search_ext(base, ldap.SCOPE_SUBTREE, FILTER, ['uid'], serverctrls=[sort, pages])
        _, entries, _, controls = server.result3(message)
        found += [entry['uid'][0].decode() for _, entry in entries]
        cookie = [c.cookie for c in controls if c.controlType == SimplePagedResultsControl.controlType][0]
        if not cookie:
            break
        pages.cookie = cookie
    print('pages', ' '.join(found))
    window = VLVRequestControl(True, before_count=1, after_count=2, offset=4, content_count=0)
    message = server.search_ext(base, ldap.SCOPE_SUBTREE, FILTER, ['uid'], serverctrls=[sort, window])
    _, entries, _, controls = server.result3(message, resp_ctrl_classes=known)
    [answer] = [c for c in controls if c.controlType == VLVResponseControl.controlType]
    uids = ' '.join(entry['uid'][0].decode() for _, entry in entries)
    print('window', answer.targetPosition, answer.contentCount, uids)


def ldap3():
    from ldap3 import Connection, Server
    from ldap3.protocol.rfc2696 import paged_search_control

    connection = Connection(Server(url), dn, password, auto_bind=True)
    # One key: uid, reversed.
    value = bytes.fromhex('300a3008040375696481' + '01ff')
    sort = ('1.2.840.113556.1.4.473', True, value)
    found, cookie = [], None
    while True:
        controls = [sort, paged_search_control(True, 5, cookie)]
        connection.search(base, FILTER, attributes=['uid'], controls=controls)
        found += [entry.uid.value for entry in connection.entries]
        cookie = connection.result['controls']['1.2.840.113556.1.4.319']['value']['cookie']
        if not cookie:
            break
    print('pages', ' '.join(found))


{'python-ldap': python_ldap, 'ldap3': ldap3}[library]()
