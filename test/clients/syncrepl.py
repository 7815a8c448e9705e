"""A consumer by python-ldap's syncrepl module: syncrepl.py URL DN PASSWORD BASE. Each line of input asks for the copy."""

import sys

import ldap
from ldap.ldapobject import ReconnectLDAPObject
from ldap.syncrepl import SyncreplConsumer


class Consumer(ReconnectLDAPObject, SyncreplConsumer):
    def __init__(self, url):
        super().__init__(url)
        self.copy = {}
        self.cookie = None
        self.present = set()

    def syncrepl_get_cookie(self):
        return self.cookie

    def syncrepl_set_cookie(self, cookie):
        self.cookie = cookie

    def syncrepl_entry(self, dn, attributes, uuid):
        self.copy[uuid] = dn

    def syncrepl_delete(self, uuids):
        for uuid in uuids:
            self.copy.pop(uuid, None)

    def syncrepl_present(self, uuids, refreshDeletes=False):
        if uuids is not None:
            self.present.update(uuids)
            return
        if not refreshDeletes:
            for uuid in [one for one in self.copy if one not in self.present]:
                del self.copy[uuid]
        self.present.clear()


url, dn, password, base = sys.argv[1:]
consumer = Consumer(url)
consumer.simple_bind_s(dn, password)
for _ in sys.stdin:
    message = consumer.syncrepl_search(base, ldap.SCOPE_SUBTREE, mode='refreshOnly', cookie=consumer.cookie)
    while consumer.syncrepl_poll(msgid=message, timeout=30, all=1):
        pass
    print(' '.join(sorted(consumer.copy.values())), flush=True)
