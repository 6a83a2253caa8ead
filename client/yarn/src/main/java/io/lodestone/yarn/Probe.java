// SPDX-License-Identifier: Apache-2.0
package io.lodestone.yarn;

import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.charset.StandardCharsets;

/** Asks a daemon for its version, as each client does first. No disk has a part in the answer. */
final class Probe {
  private static final byte RPC_REQUEST = 3;
  private static final byte HELLO = 64;
  private static final int PROTOCOL_VERSION = 8;
  private static final byte[] NAME = "lodestone-yarn".getBytes(StandardCharsets.UTF_8);

  private Probe() {}

  /**
   * Returns true if the daemon is silent. It may take this time for the connection, and again for
   * an answer. It answers, too, if it closes the connection: it has too many of them.
   */
  static boolean isSilent(String listen, int waitMs) throws IOException {
    int colon = listen.lastIndexOf(':');
    String host = listen.substring(0, colon);
    int port = Integer.parseInt(listen.substring(colon + 1));
    try (Socket socket = new Socket()) {
      socket.connect(new InetSocketAddress(host, port), waitMs);
      socket.setSoTimeout(waitMs);
      DataOutputStream out = new DataOutputStream(socket.getOutputStream());
      int bodyBytes = 1 + 4 + 4 + NAME.length;
      // docs/protocol.md: the frame with its length, the request with its number, and its body.
      out.writeLong(8 + 1 + 8 + 4 + bodyBytes);
      out.writeByte(RPC_REQUEST);
      out.writeLong(1);
      out.writeInt(bodyBytes);
      out.writeByte(HELLO);
      out.writeInt(PROTOCOL_VERSION);
      out.writeInt(NAME.length);
      out.write(NAME);
      out.flush();
      socket.getInputStream().read();
      return false;
    } catch (SocketTimeoutException silence) {
      return true;
    }
  }
}
