export interface HttpRequest {
  readonly query: URLSearchParams;
  /** Absent unless the route has `maxBodyBytes`. */
  readonly body?: string;
  /** Is aborted when the client leaves before the end of the response. */
  readonly signal: AbortSignal;
}

export interface HttpReply {
  /** 200 unless given. */
  readonly status?: number;
  /** Media type; plain text in UTF-8 unless given. */
  readonly type?: string;
  /** The whole text, or its parts as they become known. */
  readonly body: string | AsyncIterable<string>;
}

/** What a server answers to one method and path. A thrown `CliError` becomes status 400 with its message. */
export interface Route {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  /** Whether the route needs no token, and answers OPTIONS as GET, which load balancers send. */
  readonly isPublic?: boolean;
  /** Longest body of a request, in bytes; absent: a request has none. */
  readonly maxBodyBytes?: number;
  handle(request: HttpRequest): HttpReply | Promise<HttpReply>;
}
