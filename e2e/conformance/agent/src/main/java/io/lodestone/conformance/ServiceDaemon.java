// SPDX-License-Identifier: Apache-2.0
package io.lodestone.conformance;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/**
 * The daemon that serves in place of the external shuffle service that a suite starts in its JVM.
 * The suite keeps its server, which nobody asks: its port is the daemon's, and what the suite tells
 * its handler in the role of the cluster manager, the daemon learns as well.
 */
public final class ServiceDaemon {
  /** A key with a port on loopback. Without it, a suite has its own service. */
  private static final String PORT = "conformance.service";

  private static final byte RPC_REQUEST = 3;
  private static final byte RPC_RESPONSE = 4;
  private static final byte END_APPLICATION = 78;

  private ServiceDaemon() {}

  static boolean isGiven() {
    return Keys.get(PORT) != null;
  }

  /** Returns the port of a server, or of the daemon if this handler is that of a service. */
  public static int portOf(Object handler, int own) {
    boolean isService = handler.getClass().getName().endsWith(".ExternalBlockHandler");
    return isService ? port() : own;
  }

  private static int port() {
    return Integer.parseInt(Keys.get(PORT));
  }

  /** Has the daemon forget an application, as the service of the suite does. */
  public static void applicationRemoved(String app) {
    byte[] name = app.getBytes(StandardCharsets.UTF_8);
    ByteBuffer body = ByteBuffer.allocate(1 + 4 + name.length + 4);
    body.put(END_APPLICATION).putInt(name.length).put(name).putInt(Integer.MAX_VALUE);
    try (Socket socket = new Socket("127.0.0.1", port())) {
      DataOutputStream out = new DataOutputStream(socket.getOutputStream());
      // Length, type, id of the request, length of the body.
      out.writeLong(8 + 1 + 8 + 4 + body.capacity());
      out.writeByte(RPC_REQUEST);
      out.writeLong(1);
      out.writeInt(body.capacity());
      out.write(body.array());
      out.flush();
      DataInputStream in = new DataInputStream(socket.getInputStream());
      in.readLong();
      if (in.readByte() != RPC_RESPONSE) {
        throw new IOException("the daemon refuses to end " + app);
      }
    } catch (IOException gone) {
      // The daemon has ended: the suite must not go on without it.
      throw new UncheckedIOException(gone);
    }
  }
}
