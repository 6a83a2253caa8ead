// SPDX-License-Identifier: Apache-2.0
package io.lodestone.yarn;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.server.api.ApplicationInitializationContext;
import org.apache.hadoop.yarn.server.api.ApplicationTerminationContext;
import org.apache.hadoop.yarn.server.api.AuxiliaryService;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Spark's shuffle service of a NodeManager, by a daemon that it starts and supervises. It hands the
 * secrets of applications to the daemon, and tells it which applications have ended.
 */
public final class ShuffleService extends AuxiliaryService {

  /** The name that Spark's clients ask for, unless {@code spark.shuffle.service.name} differs. */
  private static final String NAME = "spark_shuffle";

  /** The daemon's program, and its configuration file. */
  static final String PROGRAM = "lodestone.program";

  static final String CONFIG = "lodestone.config";

  /** As for Spark's own service: clients must know the secret of their application. */
  private static final String AUTHENTICATE = "spark.authenticate";

  private static final String LOCAL_DIRS = "yarn.nodemanager.local-dirs";
  private static final Logger LOG = LoggerFactory.getLogger(ShuffleService.class);

  private final NodeState nodeManager = new NodeState();
  private SecretFiles secrets;
  private Supervisor daemon;
  private Endings endings;

  public ShuffleService() {
    super(NAME);
  }

  @Override
  protected void serviceInit(Configuration conf) throws Exception {
    nodeManager.follow();
    boolean recovers = getRecoveryPath() != null;
    List<Path> localDirs = LocalDirs.of(conf.getTrimmedStrings(LOCAL_DIRS));
    Path state = recovers ? recovery() : LocalDirs.open(localDirs, "lodestone");
    DaemonCommand command =
        new DaemonCommand(required(conf, PROGRAM), required(conf, CONFIG), state);
    command.executorRoots(localDirs);
    if (conf.getBoolean(AUTHENTICATE, false)) {
      secrets = new SecretFiles(state.resolve("secrets"));
      if (recovers) {
        secrets.sweep();
      } else {
        secrets.clear();
      }
      command.secrets(secrets.directory());
    }
    daemon = new Supervisor(command);
    endings = new Endings(daemon);
    super.serviceInit(conf);
  }

  @Override
  protected void serviceStart() throws Exception {
    daemon.start();
    super.serviceStart();
  }

  @Override
  protected void serviceStop() throws Exception {
    nodeManager.forget();
    if (endings != null) {
      endings.stop();
      daemon.stop();
    }
    super.serviceStop();
  }

  /** Comes with the first container of an application on this host, and again with others. */
  @Override
  public void initializeApplication(ApplicationInitializationContext context) {
    String application = context.getApplicationId().toString();
    if (secrets != null) {
      try {
        secrets.put(application, ServiceData.parse(context.getApplicationDataForService()));
      } catch (IOException failure) {
        // The disk of the NodeManager, or data that Spark does not send. The daemon refuses the
        // application's executors, which report it.
        LOG.error("The secret of {} was not stored", application, failure);
      }
    }
  }

  /**
   * Comes when the application has ended everywhere, also if that was while this host was down. And
   * when a NodeManager stops whose successor does not take over its containers: then the
   * application may live on other hosts, and need what the daemon has of it.
   */
  @Override
  public void stopApplication(ApplicationTerminationContext context) {
    String application = context.getApplicationId().toString();
    if (nodeManager.isStopping()) {
      LOG.info("{} may live on other hosts", application);
      return;
    }
    if (secrets != null) {
      try {
        secrets.remove(application);
      } catch (IOException failure) {
        // The disk of the NodeManager. The secret opens nothing once the data is gone.
        LOG.warn("The secret of {} was not removed", application, failure);
      }
    }
    endings.add(application);
  }

  /** Spark asks for none. */
  @Override
  public ByteBuffer getMetaData() {
    return ByteBuffer.allocate(0);
  }

  private Path recovery() throws IOException {
    Path state = Paths.get(getRecoveryPath().toUri().getPath());
    PrivateDirectory.open(state);
    return state;
  }

  private static Path required(Configuration conf, String key) throws IOException {
    String value = conf.getTrimmed(key);
    if (value == null || value.isEmpty()) {
      throw new IOException("yarn-site.xml needs the key " + key);
    }
    Path path = Paths.get(value);
    if (!path.toFile().canRead()) {
      throw new IOException(key + ": " + path + " is missing, or not to be read by this user");
    }
    return path;
  }
}
