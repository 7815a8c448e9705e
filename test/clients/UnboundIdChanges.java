import com.unboundid.ldap.sdk.LDAPConnection;
import com.unboundid.ldap.sdk.LDAPException;
import com.unboundid.ldap.sdk.SearchRequest;
import com.unboundid.ldap.sdk.SearchResultEntry;
import com.unboundid.ldap.sdk.SearchResultListener;
import com.unboundid.ldap.sdk.SearchResultReference;
import com.unboundid.ldap.sdk.SearchScope;
import com.unboundid.ldap.sdk.controls.EntryChangeNotificationControl;
import com.unboundid.ldap.sdk.controls.PersistentSearchChangeType;
import com.unboundid.ldap.sdk.controls.PersistentSearchRequestControl;

/**
 * A persistent search by the UnboundID LDAP SDK: HOST PORT DN PASSWORD BASE. Prints each change as it comes: its kind, the
 * DN, and the previous DN of a rename, with tabs between them.
 */
class UnboundIdChanges implements SearchResultListener {
  public static void main(String[] args) throws LDAPException {
    try (LDAPConnection connection = new LDAPConnection(args[0], Integer.parseInt(args[1]), args[2], args[3])) {
      SearchRequest request =
          new SearchRequest(new UnboundIdChanges(), args[4], SearchScope.SUB, "(objectClass=*)", "*");
      request.addControl(
          new PersistentSearchRequestControl(PersistentSearchChangeType.allChangeTypes(), true, true, true));
      connection.search(request);
    }
  }

  @Override
  public void searchEntryReturned(SearchResultEntry entry) {
    try {
      EntryChangeNotificationControl change = EntryChangeNotificationControl.get(entry);
      String previous = change.getPreviousDN() == null ? "" : "\t" + change.getPreviousDN();
      System.out.println(change.getChangeType().getName() + "\t" + entry.getDN() + previous);
    } catch (LDAPException malformed) {
      System.out.println(malformed);
    }
  }

  @Override
  public void searchReferenceReturned(SearchResultReference reference) {
    System.out.println(reference);
  }
}
