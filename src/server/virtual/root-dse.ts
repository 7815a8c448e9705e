import type { DirectorySettings } from '../../partition/model/directory-types.js';
import { ExtendedOid, FeatureOid } from '../../protocol/oids.js';
import { SUBSCHEMA_DN } from '../entry/computed.js';
import type { Config } from '../settings/index.js';
import { SUPPORTED_CONTROLS } from '../words/controls.js';
import { VENDOR, VERSION } from '../words/version.js';
import type { VirtualAttributes } from './virtual-attributes.js';

/** The root DSE (RFC 4512 §5.1, RFC 3045). */
export function rootDseAttributes(settings: DirectorySettings, config: Config): VirtualAttributes {
  return [
    ['objectClass', ['top']],
    ['namingContexts', settings.suffixes],
    ['supportedLDAPVersion', ['3']],
    ['supportedControl', SUPPORTED_CONTROLS],
    ['supportedExtension', supportedExtensions(config)],
    ['supportedFeatures', Object.values(FeatureOid)],
    ['subschemaSubentry', [SUBSCHEMA_DN]],
    ['monitorContext', ['cn=Monitor']],
    ['vendorName', [VENDOR]],
    ['vendorVersion', [VERSION]],
    ['entryDN', ['']],
    ['structuralObjectClass', ['top']],
    ['hasSubordinates', ['TRUE']],
  ];
}

/** StartTLS is supported only with a certificate. */
function supportedExtensions(config: Config): string[] {
  return Object.values(ExtendedOid).filter((oid) => oid !== ExtendedOid.startTls || config.tls.cert !== undefined);
}
