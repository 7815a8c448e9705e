import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.Optional;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.HConstants;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.master.HMaster;
import org.apache.hadoop.hbase.master.HMasterCommandLine;
import org.apache.hadoop.hbase.regionserver.HRegionServer;
import org.apache.hadoop.hbase.rest.RESTServer;
import org.apache.hadoop.hbase.util.JVMClusterUtil;
import org.apache.hadoop.metrics2.impl.JmxCacheBuster;
import org.apache.hadoop.util.ToolRunner;
import sun.misc.Signal;

/**
 * HBase in one JVM: ZooKeeper, a master, region servers and the REST gateway; or, with the argument
 * {@code region-server}, one region server that belongs to the HBase of another JVM. The system properties
 * {@code rowan.hbase.*} that conf/hbase-site.xml names give folder and ports; {@code rowan.hbase.more.ports} those of
 * further region servers, {@code rowan.hbase.while} the ids of processes: it ends with the first of them.
 */
public final class SingleHBase {
  private interface Part {
    void run() throws Exception;
  }

  public static void main(String[] arguments) {
    for (String pid : System.getProperty("rowan.hbase.while", "").split(",")) follow(pid);
    // Otherwise each region that opens or closes makes all metrics anew, for nobody. `stop` needs an order to cancel.
    JmxCacheBuster.clearJmxCache();
    JmxCacheBuster.stop();
    if (arguments.length > 0 && arguments[0].equals("region-server")) {
      start("region server", SingleHBase::runOneRegionServer);
      return;
    }
    // Java's own end of the process would take ZooKeeper away first, and the others would wait for it.
    Signal.handle(new Signal("TERM"), signal -> start("shutdown", SingleHBase::shutDown));
    start("cluster", SingleHBase::runCluster);
    start("rest", () ->
        RESTServer.main(new String[] {"start", "-p", System.getProperty("rowan.hbase.rest.port"), "--infoport", "-1"}));
    for (String port : System.getProperty("rowan.hbase.more.ports", "").split(",")) {
      if (!port.isEmpty()) start("region server " + port, () -> runRegionServer(Integer.parseInt(port)));
    }
  }

  /** A part that fails takes the process with it: half an HBase answers in misleading ways. */
  private static void start(String name, Part part) {
    new Thread(() -> {
      try {
        part.run();
      } catch (Throwable failure) {
        failure.printStackTrace();
        Runtime.getRuntime().halt(1);
      }
    }, name).start();
  }

  /** HMaster.main would wait for every thread of the process, the gateway's included. */
  private static void runCluster() throws Exception {
    int code = ToolRunner.run(HBaseConfiguration.create(), new HMasterCommandLine(HMaster.class), new String[] {"start"});
    Runtime.getRuntime().halt(code);
  }

  private static void runRegionServer(int port) throws Exception {
    Configuration conf = HBaseConfiguration.create();
    awaitZooKeeper(conf.getInt(HConstants.ZOOKEEPER_CLIENT_PORT, 0));
    conf.setInt(HConstants.REGIONSERVER_PORT, port);
    JVMClusterUtil.createRegionServerThread(conf, HRegionServer.class, port).start();
  }

  /** HBase's own hook stops it in order when the process is told to end. */
  private static void runOneRegionServer() throws Exception {
    Configuration conf = HBaseConfiguration.create();
    awaitZooKeeper(conf.getInt(HConstants.ZOOKEEPER_CLIENT_PORT, 0));
    HRegionServer server = new HRegionServer(conf);
    server.start();
    server.join();
    Runtime.getRuntime().halt(server.isAborted() ? 1 : 0);
  }

  private static void awaitZooKeeper(int port) throws InterruptedException {
    while (true) {
      try (Socket socket = new Socket()) {
        socket.connect(new InetSocketAddress("127.0.0.1", port), 1000);
        return;
      } catch (IOException notYet) {
        Thread.sleep(100);
      }
    }
  }

  private static void shutDown() throws IOException {
    try (Connection connection = ConnectionFactory.createConnection(HBaseConfiguration.create());
        Admin admin = connection.getAdmin()) {
      admin.shutdown();
    }
  }

  private static void follow(String pid) {
    if (pid.isEmpty()) return;
    Optional<ProcessHandle> other = ProcessHandle.of(Long.parseLong(pid));
    if (other.isEmpty()) Runtime.getRuntime().halt(1);
    other.get().onExit().thenRun(() -> Runtime.getRuntime().halt(0));
  }
}
