/** Object identifiers of controls that the codec knows the value of, or that the server acts on without a value. */
export const ControlOid = {
  /** RFC 2696. */
  pagedResults: '1.2.840.113556.1.4.319',
  /** RFC 3296 §3. */
  manageDsaIT: '2.16.840.1.113730.3.4.2',
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
} as const;

/** responseName of the unsolicited Notice of Disconnection (RFC 4511 §4.4.1). */
export const NOTICE_OF_DISCONNECTION = '1.3.6.1.4.1.1466.20036';

/** Features told in supportedFeatures of the root DSE. */
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
