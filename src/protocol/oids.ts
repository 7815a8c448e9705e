/** Rowan's OID arc, derived from a UUID (X.667): 1 attributes, 2 classes, 3 extended operations, 4 controls. */
const ROWAN_ARC = '2.25.52069437446289482231917277112766022336';

/** Object identifiers of the controls that the server supports. */
export const ControlOid = {
  /** RFC 2696. */
  pagedResults: '1.2.840.113556.1.4.319',
  /** RFC 2891. */
  sortRequest: '1.2.840.113556.1.4.473',
  /** The same. Response only. */
  sortResponse: '1.2.840.113556.1.4.474',
  /** draft-ietf-ldapext-ldapv3-vlv-09. */
  virtualListRequest: '2.16.840.1.113730.3.4.9',
  /** The same. Response only. */
  virtualListResponse: '2.16.840.1.113730.3.4.10',
  /** RFC 3296 §3. */
  manageDsaIT: '2.16.840.1.113730.3.4.2',
  /** draft-armijo-ldap-treedelete-02: deletes an entry with all entries below it. */
  treeDelete: '1.2.840.113556.1.4.805',
  /** RFC 3876. */
  matchedValues: '1.2.826.0.1.3344810.2.3',
  /** RFC 3672 §3. */
  subentries: '1.3.6.1.4.1.4203.1.10.1',
  /** LDAP_SERVER_DOMAIN_SCOPE_OID of MS-ADTS §3.1.1.3.4.1. */
  domainScope: '1.2.840.113556.1.4.1339',
  /** LDAP_SERVER_SHOW_DELETED_OID, in the same place. */
  showDeleted: '1.2.840.113556.1.4.417',
  /** The requester's rights on the attributes of each returned entry. */
  effectiveRights: '1.3.6.1.4.1.42.2.27.9.5.2',
  /** Whether users can bind as the returned entries. Each entry gets a response control. */
  accountUsability: '1.3.6.1.4.1.42.2.27.9.5.8',
  /** draft-wahl-ldap-session-03: the user on whose behalf a client asks. */
  sessionTracking: '1.3.6.1.4.1.21008.108.63.1',
  /** draft-behera-ldap-password-policy-10 §6. */
  passwordPolicy: '1.3.6.1.4.1.42.2.27.8.5.1',
  /** draft-ietf-ldapext-psearch-03. */
  persistentSearch: '2.16.840.1.113730.3.4.3',
  /** The same. Response only. */
  entryChange: '2.16.840.1.113730.3.4.7',
  /** RFC 4533 §2.2. */
  syncRequest: '1.3.6.1.4.1.4203.1.9.1.1',
  /** RFC 4533 §2.3. Response only. */
  syncState: '1.3.6.1.4.1.4203.1.9.1.2',
  /** RFC 4533 §2.4. Response only. */
  syncDone: '1.3.6.1.4.1.4203.1.9.1.3',
  /** draft-vchu-ldap-pwd-policy-00: the password has expired or has to be changed. Response only. */
  passwordExpired: '2.16.840.1.113730.3.4.4',
  /** Seconds until the password expires. Response only. */
  passwordExpiring: '2.16.840.1.113730.3.4.5',
  /** RFC 4370: the operation runs as another identity. */
  proxiedAuthorization: '2.16.840.1.113730.3.4.18',
  /** RFC 4528. */
  assertion: '1.3.6.1.1.12',
  /** RFC 4527 §3.1. */
  preRead: '1.3.6.1.1.13.1',
  /** RFC 4527 §3.2. */
  postRead: '1.3.6.1.1.13.2',
  /** RFC 6171. */
  dontUseCopy: '1.3.6.1.1.22',
  /** [MS-ADTS] 3.1.1.3.4.1.8: a modify adds what is there already, and deletes what is absent, without an error. */
  permissiveModify: '1.2.840.113556.1.4.1413',
  /** draft-zeilenga-ldap-noop-10: a write is checked and not made. */
  noOp: '1.3.6.1.4.1.4203.1.10.2',
  /** The same, as OpenLDAP's tools send it. */
  openLdapNoOp: '1.3.6.1.4.1.4203.666.5.2',
  /** draft-zeilenga-ldap-relax-03. */
  relax: '1.3.6.1.4.1.4203.666.5.12',
  /** RFC 5805 §2.2. */
  transaction: '1.3.6.1.1.21.2',
  /** The search is of the directory as it was at a moment (docs/formats/as-of.md). */
  asOf: `${ROWAN_ARC}.4.1`,
} as const;

/** Object identifiers of extended operations (requestName, RFC 4511 §4.12). */
export const ExtendedOid = {
  /** RFC 4511 §4.14. */
  startTls: '1.3.6.1.4.1.1466.20037',
  /** RFC 4532. */
  whoAmI: '1.3.6.1.4.1.4203.1.11.3',
  /** RFC 3062. */
  passwordModify: '1.3.6.1.4.1.4203.1.11.1',
  /** RFC 3909. */
  cancel: '1.3.6.1.1.8',
  /** RFC 5805 §2.1. */
  startTransaction: '1.3.6.1.1.21.1',
  /** RFC 5805 §2.3. */
  endTransaction: '1.3.6.1.1.21.3',
  /** Manages application passwords; an operation of Rowan (docs/server.md). */
  applicationPasswords: `${ROWAN_ARC}.3.1`,
  /** Sends the changes of the directory to a replica (docs/formats/replication.md). */
  replicate: `${ROWAN_ARC}.3.2`,
  /** Tells the primary up to which entry of its log a replica has everything on disk. */
  replicated: `${ROWAN_ARC}.3.3`,
  /** A request that a replica forwards on behalf of its client. */
  forward: `${ROWAN_ARC}.3.4`,
  /** What a replica has recorded of binds while the primary was away. */
  handOn: `${ROWAN_ARC}.3.5`,
} as const;

/** responseName of the unsolicited Notice of Disconnection (RFC 4511 §4.4.1). */
export const NOTICE_OF_DISCONNECTION = '1.3.6.1.4.1.1466.20036';

/** responseName of the unsolicited Aborted Transaction Notice (RFC 5805 §2.4). */
export const ABORTED_TRANSACTION = '1.3.6.1.1.21.4';

/** responseName of the intermediate Sync Info message (RFC 4533 §2.5). */
export const SYNC_INFO = '1.3.6.1.4.1.4203.1.9.1.4';

/** Values of supportedFeatures in the root DSE. */
export const FeatureOid = {
  /** `+` selects all operational attributes (RFC 3673). */
  allOperationalAttributes: '1.3.6.1.4.1.4203.1.5.1',
  /** `@class` selects the attributes of an object class (RFC 4529). */
  attributesByObjectClass: '1.3.6.1.4.1.4203.1.5.2',
  /** `(&)` and `(|)` (RFC 4526). */
  absoluteFilters: '1.3.6.1.4.1.4203.1.5.3',
  /** The increment modification (RFC 4525). */
  modifyIncrement: '1.3.6.1.1.14',
} as const;
