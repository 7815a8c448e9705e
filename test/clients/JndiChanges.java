import java.util.Hashtable;
import javax.naming.Binding;
import javax.naming.CompositeName;
import javax.naming.Context;
import javax.naming.InvalidNameException;
import javax.naming.NamingException;
import javax.naming.event.EventContext;
import javax.naming.event.EventDirContext;
import javax.naming.event.NamespaceChangeListener;
import javax.naming.event.NamingEvent;
import javax.naming.event.NamingExceptionEvent;
import javax.naming.event.ObjectChangeListener;
import javax.naming.ldap.InitialLdapContext;

/**
 * Listeners of JNDI, whose LDAP provider makes a persistent search for them: HOST PORT DN PASSWORD BASE. Prints each
 * change as it comes: its kind, the DN, and the previous DN of a rename, with tabs between them.
 */
class JndiChanges implements NamespaceChangeListener, ObjectChangeListener {
  public static void main(String[] args) throws NamingException, InterruptedException {
    Hashtable<String, String> environment = new Hashtable<>();
    environment.put(Context.INITIAL_CONTEXT_FACTORY, "com.sun.jndi.ldap.LdapCtxFactory");
    environment.put(Context.PROVIDER_URL, "ldap://" + args[0] + ":" + args[1]);
    environment.put(Context.SECURITY_PRINCIPAL, args[2]);
    environment.put(Context.SECURITY_CREDENTIALS, args[3]);
    EventDirContext context = (EventDirContext) new InitialLdapContext(environment, null).lookup("");
    context.addNamingListener(args[4], EventContext.SUBTREE_SCOPE, new JndiChanges());
    Thread.currentThread().join();
  }

  private static void print(String kind, Binding... bindings) {
    StringBuilder line = new StringBuilder(kind);
    for (Binding binding : bindings) {
      try {
        line.append('\t').append(new CompositeName(binding.getName()).get(0));
      } catch (InvalidNameException malformed) {
        line.append('\t').append(malformed);
      }
    }
    System.out.println(line);
  }

  @Override
  public void objectAdded(NamingEvent event) {
    print("add", event.getNewBinding());
  }

  @Override
  public void objectChanged(NamingEvent event) {
    print("modify", event.getNewBinding());
  }

  @Override
  public void objectRenamed(NamingEvent event) {
    print("moddn", event.getNewBinding(), event.getOldBinding());
  }

  @Override
  public void objectRemoved(NamingEvent event) {
    print("delete", event.getOldBinding());
  }

  @Override
  public void namingExceptionThrown(NamingExceptionEvent event) {
    System.out.println(event.getException());
  }
}
